"""Everything that exists only because of the versions of other packages, each with its reason."""

import torch


def apply() -> None:
    """Repair what is broken in the installed stack, and nothing else. Calling it again changes nothing."""
    define_torchvision_schemas()


def define_torchvision_schemas() -> None:
    pass
