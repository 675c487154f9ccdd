"""Compose the invented catalogue: designers.jsonl and catalogue.jsonl from vocabulary.json.

Run it from anywhere with `python data/marketplace/make_catalogue.py`; it rewrites both files beside itself.
Every choice is a hash of what is chosen for, so the result is the same on every machine and Python version, and a
new garment in the vocabulary leaves most other products as they are.

Not here: reading and searching the catalogue (`toolkit.worlds.marketplace`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SEED = "marketplace-1"
PER_DESIGNER = 15
SEASONS = ("Spring", "Summer", "Autumn", "Winter")
HERE = Path(__file__).parent


def draw(*key: object) -> int:
    """Return a large number that depends on the seed and `key` only."""
    return int.from_bytes(hashlib.sha256("|".join(map(str, (SEED, *key))).encode()).digest()[:8], "big")


def pick(options: Sequence[str], *key: object) -> str:
    """Choose one of `options`."""
    return options[draw(*key) % len(options)]


def pick_some(options: Sequence[str], least: int, most: int, *key: object) -> list[str]:
    """Choose between `least` and `most` different ones, in the order of `options`."""
    count = min(len(options), least + draw(*key, "count") % (most - least + 1))
    chosen = sorted(options, key=lambda option: draw(*key, option))[:count]
    return [option for option in options if option in chosen]


def title(names: Sequence[str], garment: str, taken: set[str], *key: object) -> str:
    """Name a garment as no other product is named: 'Alder wrap dress'."""
    start = draw(*key, "name") % len(names)
    candidates = (f"{name} {garment}" for name in (*names[start:], *names[:start]))
    found = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(found)
    return found


def describe(
    words: dict[str, Any], kind: dict[str, Any], garment: str, material: str, season: str, *key: object
) -> str:
    """Write two to four sentences: the cut, the cloth, and a detail, an occasion or both."""
    ending = (
        [pick(kind["details"], *key, "detail")],
        [pick(words["occasions"][season], *key, "occasion")],
        [pick(kind["details"], *key, "detail"), pick(words["occasions"][season], *key, "occasion")],
    )[draw(*key, "ending") % 3]
    cut = pick(kind["garments"][garment], *key, "cut")
    return " ".join([cut, pick(words["materials"][material], *key, "cloth"), *ending])


def cloth(words: dict[str, Any], kind: dict[str, Any], garment: str, season: str, *key: object) -> str:
    """Choose a material of the season; some garments, such as jeans, are made of few."""
    seasonal = kind["materials"][season]
    only = words["made_of"].get(garment, seasonal)
    return pick([material for material in seasonal if material in only] or only, *key, "material")


def price(kind: dict[str, Any], level: float, *key: object) -> float:
    """Return a price in EUR that ends in 5 or 9, within a third of the category's usual one."""
    raw = kind["price"] * level * (0.75 + draw(*key, "price") % 60 / 100)
    return float(round(raw / 10) * 10 + (5 if draw(*key, "ending of price") % 2 else -1))


def products(words: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every product, designer by designer."""
    taken: set[str] = set()
    for house, designer in enumerate(words["designers"]):
        for number in range(PER_DESIGNER):
            key = (designer["name"], number)
            category = designer["makes"][number % len(designer["makes"])]
            kind = words["categories"][category]
            # swimwear sells in the warm half of the year
            season = pick(SEASONS[:2] if category == "Swimwear" else SEASONS, *key, "season")
            garment = pick(list(kind["garments"]), *key, "garment")
            material = cloth(words, kind, garment, season, *key)
            ident = 100_000 + (house * PER_DESIGNER + number + 1) * 7919 % 900_000  # 7919 is prime: no id twice
            yield {
                "id": ident,
                "title": title(words["names"], garment, taken, *key),
                "category": category,
                "season": season,
                "designer": designer["name"],
                "price": price(kind, designer["level"], *key),
                "currency": "EUR",
                "colours": pick_some(designer["palette"], 1, 3, *key, "colours"),
                "sizes": pick_some(kind["sizes"], 3, 5, *key, "sizes"),
                "material": material,
                "description": describe(words, kind, garment, material, season, *key),
                "product_url": f"https://shop.example.org/products/{ident}",
                "in_stock": draw(*key, "stock") % 8 != 0,
            }


def compose() -> dict[str, str]:
    """Return the text of each file by its name."""
    words = json.loads((HERE / "vocabulary.json").read_text(encoding="utf-8"))
    told = ("name", "country", "founded", "style", "description")
    designers = [{field: designer[field] for field in told} for designer in words["designers"]]
    rows = {"designers.jsonl": designers, "catalogue.jsonl": list(products(words))}
    return {name: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in data) for name, data in rows.items()}


if __name__ == "__main__":
    for name, text in compose().items():
        (HERE / name).write_text(text, encoding="utf-8")
