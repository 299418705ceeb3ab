"""Dataset readers: classes that turn annotation files into labelled samples. CONTRIBUTING.md tells how to add one."""
