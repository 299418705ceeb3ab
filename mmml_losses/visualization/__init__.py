"""Pictures of multi-label predictions, and the report page that joins them."""

from .reliability import plot_reliability
from .report import write_report
from .retrieval import plot_retrieval_sheet
from .style import png_bytes

__all__ = ['plot_reliability', 'plot_retrieval_sheet', 'png_bytes', 'write_report']
