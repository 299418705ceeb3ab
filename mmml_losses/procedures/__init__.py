"""Work of several steps for tools and scripts: calibrate a model, write labels, self-train, and extract features."""
