"""What one open page of the playground keeps between runs of its cells: the edited stage, and what was found last."""

import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...kernels.runtime.plan import Plan
from .live_stages import Mistake
from .panels import assembly_panel, explanation_panel, heading, measured_panel, mistake_panel, time_panel
from .settings import Settings
from .worker import WORKER

# How long nothing may change before a kernel is compiled.
SETTLED_S = 0.15
NO_STAGE = "none"
# The kinds of panels that stay below a mistake, in order.
PANELS = ("nest", "bytes", "machine", "stages")


@dataclass(slots=True)
class Session:
    """The page of one person.

    Attributes:
        stage: the stage that is chosen to be edited, by the name of its file in a dump; `NO_STAGE` for none.
        text: the text as the person edited it; None for the text that the passes make.
        resets: how often the text was reset.
        found: the last answer of the worker.
        kept: the last panels of each kind, as HTML, which stay below a mistake.
        linked: the text of a stage that came by the link, and that nobody has agreed to run; None for none.
    """

    stage: str = NO_STAGE
    text: str | None = None
    resets: int = 0
    found: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    linked: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Session":
        """Return the session that a link begins."""
        return cls(settings.stage or NO_STAGE, settings.text or None, linked=settings.text or None)

    def choose(self, stage: str | None) -> None:
        """Note which stage is to be edited; the text of another is given up."""
        if (stage or NO_STAGE) != self.stage:
            self.stage, self.text = stage or NO_STAGE, None

    def stage_in(self, names: list[str]) -> str:
        """Return the chosen stage by its name among others: steps that come or go change the number before it."""
        if self.stage not in (NO_STAGE, *names):
            ends = [name for name in names if name.partition("-")[2] == self.stage.partition("-")[2]]
            self.stage = ends[0] if len(ends) == 1 else NO_STAGE
            self.text = None if self.stage == NO_STAGE else self.text
        return self.stage

    def text_of(self, made: str, resets: int) -> str:
        """Return the text to edit: the person's, or the one that the passes make, also after a reset."""
        if resets != self.resets:
            self.resets, self.text = resets, None
        return made if self.text is None else self.text

    def edited(self, settings: Settings, stage: str, text: str, made: str | None) -> Settings:
        """Return settings with the stage that is chosen, and with its text where that is not what the passes make."""
        if made is None:
            return settings
        self.text = None if text == made else text
        return replace(settings, stage=stage, text=self.text or "")

    def waits(self, settings: Settings, *, agreed: bool) -> bool:
        """Return whether the kernel of settings must wait until the person agrees: a link brought its stage."""
        if agreed or settings.text != self.linked:
            self.linked = None
        return self.linked is not None

    def keep(self, kind: str, panel: str) -> str:
        """Return a panel, and keep it for the next mistake."""
        self.kept[kind] = panel
        return panel

    def mistake(self, mistake: Mistake) -> str:
        """Return a mistake as HTML, and below it the last results, greyed."""
        last = "".join(self.kept[kind] for kind in PANELS if kind in self.kept)
        kept = f'<div class="kept">{heading("The last results")}{last}</div>' if last else ""
        return mistake_panel(mistake) + kept

    def write_link(self, parameters: MutableMapping[str, Any], settings: Settings) -> None:
        """Write settings and the chosen stage into the parameters of the page's address."""
        if self.stage != NO_STAGE:
            settings = replace(settings, stage=self.stage, text=self.text or "")
        query = settings.to_query()
        for name in (each.name for each in fields(Settings)):
            if name not in query and name in parameters:
                del parameters[name]
        for name, value in query.items():
            if name not in parameters or parameters[name] != value:
                parameters[name] = value

    def follow(
        self, settings: Settings, plan: Plan, show: Callable[[str], object], is_stale: Callable[[], bool]
    ) -> None:
        """Compile and time the kernel of settings, and show what is found when it is; nothing once that is stale."""
        time.sleep(SETTLED_S)
        if is_stale():
            return
        found: dict[str, Any] = {}
        for part in WORKER.ask(settings, is_stale=is_stale):
            found |= part
            if not is_stale():
                self.found = found
                show(self.machine_panels(plan, is_current=True))

    def machine_panels(self, plan: Plan, *, is_current: bool) -> str:
        """Return time, explanation and assembly, as far as they are known."""
        time_us = self.found.get("time_us") if is_current else None
        parts = time_panel(self.found, is_current=is_current), explanation_panel(plan, time_us)
        return self.keep("machine", "".join((*parts, assembly_panel(self.found, is_current=is_current))))

    def explain(self, settings: Settings, show: Callable[[str], object], is_stale: Callable[[], bool]) -> None:
        """Measure the whole explanation, and show it."""
        for part in WORKER.ask(settings, explain=True, is_stale=is_stale):
            if is_stale():
                return
            error = part.get("error")
            show(measured_panel(part["explanation"]) if error is None else mistake_panel(Mistake("Explanation", error)))
