"""Find images by the classes that they show and do not show, and measure how well a model answers such queries."""

from .measure import query_retrieval
from .queries import Query, RetrievedImages, parse_query, query, rank_images, relevant_images, retrieval_scores
from .results import RetrievalInterrupted, RetrievalMean, RetrievalResult
from .space import count_queries

__all__ = [
    'Query',
    'RetrievalInterrupted',
    'RetrievalMean',
    'RetrievalResult',
    'RetrievedImages',
    'count_queries',
    'parse_query',
    'query',
    'query_retrieval',
    'rank_images',
    'relevant_images',
    'retrieval_scores',
]
