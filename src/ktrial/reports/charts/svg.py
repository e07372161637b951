# SPDX-License-Identifier: Apache-2.0
"""Render charts without browser or network: stand-alone SVG and PNG, and a compact SVG to embed in a page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from ktrial.reports.charts.drawing import FONT, Chart

_VEGA_LITE = "6.4"
_SVG = "http://www.w3.org/2000/svg"
_FONTS = "Roboto, Arial, Helvetica, DejaVu Sans, sans-serif"
_NUMBER = re.compile(r"-?\d{1,16}\.\d+")
_MOVED = re.compile(r"translate\(([-\d.]+),([-\d.]+)\)")
_VALUES = re.compile(r"\bvalues(_\d+)?_marks\b")
_ARM = re.compile(r"var\(--arm-(\d+)\)")
#: The SVG elements that charts use; only these get into a page.
_ELEMENTS = frozenset({"svg", "g", "path", "line", "text", "tspan", "rect", "circle", "defs", "clipPath"})
_ATTRIBUTES = frozenset(
    {
        *("width", "height", "viewBox", "transform", "d", "fill", "stroke", "stroke-width", "stroke-dasharray"),
        *("stroke-linecap", "opacity", "fill-opacity", "stroke-opacity", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy"),
        *("r", "dx", "dy", "text-anchor", "font-size", "font-weight", "id", "clip-path"),
    }
)
_DEFAULTS = {"opacity": "1", "stroke-width": "1", "font-weight": "normal"}


def svg_text(chart: Chart) -> str:
    import vl_convert

    made = vl_convert.vegalite_to_svg(chart.spec, vl_version=_VEGA_LITE, allowed_base_urls=[])
    return made.replace(f'font-family="{FONT}"', f'font-family="{_FONTS}"')


def svg_bytes(chart: Chart) -> bytes:
    """Return the SVG as a file with a line break after each element, which suits a repository."""
    return (svg_text(chart).replace("><", ">\n<") + "\n").encode()


def png_bytes(chart: Chart, *, scale: float = 2.0) -> bytes:
    """Return the PNG with `scale` pixels per unit of length."""
    import vl_convert

    return vl_convert.svg_to_png(svg_text(chart), scale=scale)


def inline_svg(chart: Chart, prefix: str) -> str:
    """Return a compact SVG for a page: without invisible parts, with short numbers, and with classes for arm colours.

    Marks of the layer `values` become elements of the class `m`, in the order of the rows of the chart's table.
    `prefix` must begin with a letter and be unique within the page.
    """
    root = ET.fromstring(svg_text(chart))
    page = _Page(prefix)
    drawn = page.compact(root)
    assert drawn is not None
    drawn.attrib.clear()
    width, height = root.get("width", "0"), root.get("height", "0")
    for name, value in (("viewBox", f"0 0 {width} {height}"), ("width", width), ("role", "img")):
        drawn.set(name, value)
    drawn.set("aria-labelledby", f"{prefix}-title")
    drawn.insert(0, page.symbols())
    ET.register_namespace("", _SVG)
    return ET.tostring(drawn, encoding="unicode")


class _Page:
    """Converts one picture for a page; equal symbols are defined once and then referenced."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._symbols: dict[tuple[tuple[str, str], ...], str] = {}

    def symbols(self) -> ET.Element:
        group = ET.Element("defs")
        for attributes, name in self._symbols.items():
            ET.SubElement(group, "path", {"id": name} | dict(attributes))
        return group

    def compact(self, element: ET.Element, *, marks: bool = False) -> ET.Element | None:
        """Return the element with its visible children; None if nothing is visible."""
        name = element.tag.removeprefix(f"{{{_SVG}}}")
        if name not in _ELEMENTS or element.get("display") == "none" or element.get("opacity") == "0":
            return None
        if name == "path" and (element.get("class") in {"background", "foreground"} or not element.get("d")):
            return None
        kept = ET.Element(name, self._attributes(element))
        if name == "path" and (place := _MOVED.fullmatch(kept.get("transform", ""))):
            kept = self._reference(kept, place)
        if marks:
            kept.set("class", " ".join(("m", *kept.get("class", "").split())))
        kept.text = element.text
        inner = _VALUES.search(element.get("class", "")) is not None
        children = [child for one in element if (child := self.compact(one, marks=inner)) is not None]
        if name == "g" and not children:
            return None
        if name == "g" and len(children) == 1 and not kept.attrib:
            return children[0]
        kept.extend(children)
        return kept

    def _reference(self, path: ET.Element, place: re.Match[str]) -> ET.Element:
        drawn = tuple((name, value) for name, value in path.attrib.items() if name not in {"transform", "class"})
        symbol = self._symbols.setdefault(drawn, f"{self._prefix}-s{len(self._symbols)}")
        found = {"href": f"#{symbol}", "x": place[1], "y": place[2]}
        return ET.Element("use", found | ({"class": path.get("class", "")} if path.get("class") else {}))

    def _attributes(self, element: ET.Element) -> dict[str, str]:
        kept = {}
        classes = []
        for name, value in element.attrib.items():
            if name not in _ATTRIBUTES or _DEFAULTS.get(name) == value:
                continue
            if name in {"fill", "stroke"} and (arm := _ARM.fullmatch(value)):
                classes.append(f"k{arm[1]}")
                kept[name] = "currentColor"
            elif name == "id":
                kept[name] = f"{self._prefix}-{value}"
            elif name == "clip-path":
                kept[name] = value.replace("url(#", f"url(#{self._prefix}-")
            elif value != "translate(0,0)":
                kept[name] = _NUMBER.sub(_short, value)
        return kept | ({"class": " ".join(dict.fromkeys(classes))} if classes else {})


def _short(found: re.Match[str]) -> str:
    text = f"{float(found[0]):.1f}"
    return text.removesuffix(".0").replace("-0.", "-.") if text not in {"-0.0", "0.0"} else "0"
