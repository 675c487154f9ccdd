"""Hold the running example: a fashion marketplace with five actions and a REST API of its own.

    >>> from toolkit.worlds.marketplace import Marketplace
    >>> shop = Marketplace()
    >>> [action.__name__ for action in shop.actions()][:2]
    ['recommend_clothes', 'get_product_details']

Everything in it is invented; the catalogue is made by `data/marketplace/make_catalogue.py`.
"""

from toolkit.worlds.marketplace.catalogue import Marketplace as Marketplace
