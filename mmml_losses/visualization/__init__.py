"""Pictures of multi-label predictions and losses, and the report page that joins them."""

from .class_precision import plot_class_precision
from .histogram import plot_probability_histogram, probability_shares
from .label_counts import plot_label_counts
from .loss_curves import LossCurve, loss_curve, parse_loss, plot_loss_curves
from .metric_curves import plot_metric_curves, read_metrics
from .recovery import plot_label_recovery, read_label_recovery
from .reliability import plot_reliability
from .report import write_report
from .retrieval import plot_retrieval_curve, plot_retrieval_sheet
from .style import png_bytes, save_figure

__all__ = [
    'LossCurve',
    'loss_curve',
    'parse_loss',
    'plot_class_precision',
    'plot_label_counts',
    'plot_label_recovery',
    'plot_loss_curves',
    'plot_metric_curves',
    'plot_probability_histogram',
    'plot_reliability',
    'plot_retrieval_curve',
    'plot_retrieval_sheet',
    'png_bytes',
    'probability_shares',
    'read_label_recovery',
    'read_metrics',
    'save_figure',
    'write_report',
]
