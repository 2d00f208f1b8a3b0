"""What a new shape costs, measured in processes of their own: the parts of the suite shapes."""
