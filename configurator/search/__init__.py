"""Which candidate next. Optuna is imported when a search by TPE asks, not before."""

from configurator.search.base import Searcher
from configurator.search.ordered import GridSearcher, RandomSearcher
from configurator.search.sampler import Sampler, searcher
from configurator.search.tpe import TpeSearcher

__all__ = ["GridSearcher", "RandomSearcher", "Sampler", "Searcher", "TpeSearcher", "searcher"]
