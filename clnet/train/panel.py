"""The widgets of a running training: a bar, buttons, a line of numbers and charts; at its end a picture in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..curves import Chart, Drawing, panel
from ..show import escaped
from .messages import Messages

if TYPE_CHECKING:
    from ipywidgets import Widget

BUTTONS = {"pause": ("Pause", "pause", "Wait between two steps"),
           "stop": ("Stop", "stop", "End training after this step"),
           "save": ("Save", "save", "Save the model as it is, into this notebook's folder")}


class Panel:
    """Shown as it is made. `pressed` is called with the name of a button, maybe from another thread: it should note it
    and return.
    """

    def __init__(self, total: float, pressed: Callable[[str], None]) -> None:
        import ipywidgets as w
        from IPython.display import display

        whole = w.Layout(width="100%")
        self.bar = w.FloatProgress(value=0.0, max=total, layout=w.Layout(flex="1 1 8em", min_width="8em"))
        self.buttons = {name: w.Button(description=text, icon=icon, tooltip=tip, layout=w.Layout(width="7.4em"))
                        for name, (text, icon, tip) in BUTTONS.items()}
        self.text = w.HTML(layout=whole)
        self.curves = w.HTML(layout=whole)
        row = w.Box([self.bar, *self.buttons.values()],
                    layout=w.Layout(width="100%", display="flex", flex_flow="row wrap", align_items="center"))
        self.box = w.VBox([row, self.text, self.curves], layout=w.Layout(width="100%", overflow="hidden"))
        named = {"bar": self.bar, "text": self.text, "curves": self.curves, **self.buttons}
        for name, widget in named.items():
            widget.add_class(f"clnet-{name}")
        for name, button in self.buttons.items():
            button.on_click(lambda _, name=name: pressed(name))
        self.messages = Messages([b.model_id for b in self.buttons.values()])
        self.place = display(self.box, display_id=True)

    def show(self, done: float, words: Sequence[str]) -> None:
        """The bar at `done`, and the numbers in a line that wraps."""
        self.bar.value = done
        self.text.value = _line(words)

    def draw(self, charts: Sequence[Chart]) -> None:
        """Charts side by side where there is room, else below each other."""
        each = "".join(f'<div style="flex:1 1 250px;min-width:0;max-width:400px">{panel(c)}</div>' for c in charts)
        self.curves.value = f'<div style="display:flex;flex-wrap:wrap;line-height:0">{each}</div>'

    def paused(self, now: bool) -> None:
        """The button says what it does next."""
        button = self.buttons["pause"]
        button.description, button.icon = ("Resume", "play") if now else ("Pause", "pause")

    def close(self, picture: Drawing | None, text: str) -> None:
        """Puts a picture, which stays in the notebook, in the place of the widgets, and ends all of them. Twice is
        once.
        """
        box, self.box = self.box, None
        if box is None:
            return
        try:
            if self.place is not None:
                kinds = {"text/plain": text, **({} if picture is None else {"image/svg+xml": str(picture)})}
                self.place.update(kinds, raw=True)
        finally:
            for widget in _every(box):
                widget.close()


def _line(words: Sequence[str]) -> str:
    items = "".join(f'<span style="white-space:nowrap;margin-right:1.2em">{escaped(word)}</span> '
                    for word in words)
    return f'<div style="line-height:1.6;white-space:normal;font-variant-numeric:tabular-nums">{items}</div>'


def _every(widget: Widget) -> list[Any]:
    """The widget and all that came with it: children, layouts and styles, each of which has a comm of its own."""
    found = [w for child in getattr(widget, "children", ()) for w in _every(child)]
    return [*found, *(w for w in (getattr(widget, "layout", None), getattr(widget, "style", None)) if w), widget]
