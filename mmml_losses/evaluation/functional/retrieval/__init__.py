"""Find images by the classes that they show and do not show, and measure how well a model answers such queries."""

from .measure import RetrievalMean, RetrievalResult, count_queries, query_retrieval
from .queries import Query, RetrievedImages, parse_query, query, rank_images, relevant_images, retrieval_scores

__all__ = [
    'Query',
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
