"""Solutions and limits known in closed form. They need all the data in one place: for simulation only."""
