"""Read the labels of datasets, save labels to files, and generate reproducible random numbers for them."""
