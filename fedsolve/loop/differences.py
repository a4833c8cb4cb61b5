"""What differs between two runs, in words: for a checkpoint that is of another run."""

from __future__ import annotations

PARTS = ("algorithm", "preprocess", "seed", "clients")  # of an identity, in its order


def differences(before: str, now: str) -> list[str]:
    """What differs between two identities (`protocol.describe` of the parts), field by field where both have it."""
    ours, theirs = _items(before), _items(now)
    if len(ours) != len(PARTS) or len(theirs) != len(PARTS):
        return ["then {}, now {}".format(*_apart(before, now))]
    found: list[str] = []
    for name, old, new in zip(PARTS, ours, theirs, strict=True):
        found += _clients(old, new) if name == "clients" else _compared(name, old, new)
    return found


def _compared(where: str, old: str, new: str) -> list[str]:
    if old == new:
        return []
    kind, other = (text.partition("(")[0] for text in (old, new))
    if kind == other and old.endswith(")") and new.endswith(")"):
        fields_then, fields_now = (dict(item.partition("=")[::2] for item in _items(text)) for text in (old, new))
        if fields_then.keys() == fields_now.keys():
            return [
                line
                for name in fields_then
                for line in _compared(f"{where}.{name}", fields_then[name], fields_now[name])
            ]
    return ["{} was {}, is {}".format(where, *_apart(old, new))]


def _clients(old: str, new: str) -> list[str]:
    if old == new:
        return []
    then, now = _items(old), _items(new)
    gone, come = [one for one in then if one not in now], [one for one in now if one not in then]
    said = [f"{word} {_short(', '.join(names))}" for word, names in (("without", gone), ("with", come)) if names]
    return [f"clients: {len(then)} then, {len(now)} now, {' and '.join(said) or 'in another order'}"]


def _items(text: str) -> list[str]:
    """The parts between the outermost brackets, at the commas that stand in no inner ones and in no quotes."""
    inner = text[text.find("(") + 1 if not text.startswith("[") else 1 : -1]
    items, depth, quote, start, place = [], 0, "", 0, 0
    while place < len(inner):
        sign = inner[place]
        if quote:
            place += sign == "\\"  # what follows is escaped
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "," and depth == 0:
            items.append(inner[start:place].strip())
            start = place + 1
        place += 1
    return [*items, inner[start:].strip()] if inner.strip() else []


def _apart(old: str, new: str) -> tuple[str, str]:
    """Two different texts, short, from shortly before the place where they begin to differ."""
    if max(len(old), len(new)) <= 80:
        return old, new
    same = next((place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, same - 30)
    lead = "…" if start else ""
    return _short(lead + old[start:]), _short(lead + new[start:])


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "…"
