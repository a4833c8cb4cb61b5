"""Arrays with structure, linear algebra, designs and iterative methods. Knows nothing of clients or messages."""
