"""Pictures of multi-label predictions and losses, and the report page that joins them."""

from .class_precision import plot_class_precision
from .examples import choose_images, plot_examples
from .heat_map import plot_co_occurrence
from .histogram import plot_probability_histogram, probability_shares
from .label_counts import plot_label_counts
from .loss_curves import LossCurve, loss_curve, parse_loss, plot_loss_curves
from .margin import margin_curve, plot_margins
from .metric_curves import plot_metric_curves, read_metrics
from .recovery import plot_label_recovery, read_label_recovery
from .reliability import plot_reliability
from .report import write_report
from .retrieval import plot_retrieval_curve, plot_retrieval_sheet
from .style import png_bytes, save_figure
from .sweep import plot_sweep

__all__ = [
    'LossCurve',
    'choose_images',
    'loss_curve',
    'margin_curve',
    'parse_loss',
    'plot_class_precision',
    'plot_co_occurrence',
    'plot_examples',
    'plot_label_counts',
    'plot_label_recovery',
    'plot_loss_curves',
    'plot_margins',
    'plot_metric_curves',
    'plot_probability_histogram',
    'plot_reliability',
    'plot_retrieval_curve',
    'plot_retrieval_sheet',
    'plot_sweep',
    'png_bytes',
    'probability_shares',
    'read_label_recovery',
    'read_metrics',
    'save_figure',
    'write_report',
]
