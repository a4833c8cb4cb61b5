"""What clients send of their Hessians: eigenpairs a few at a time, or compressed differences."""
