"""Read the labels of a dataset, draw random numbers for them, and save them."""
