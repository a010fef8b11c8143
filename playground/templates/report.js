"use strict";
(() => {
  const root = document.documentElement;
  window.addEventListener("error", () => { root.dataset.errors = Number(root.dataset.errors || 0) + 1; });

  // What a line came from ("from") and what it led to ("to"), by level: a Map from line to that word.
  // levels[n] is [the level its lines came from, the origins of each line]. LLVM IR and assembly both came from the
  // source: the one shows what the source lines of the other became.
  function closure(levels, at, line) {
    const lit = levels.map(() => new Map());
    const origins = (level, n) => { const of = levels[level][1][n]; return typeof of === "number" ? [of] : of || []; };
    const below = (level, source, lines, word) => {
      levels[level][1].forEach((_, n) => {
        if (!lit[level].has(n) && origins(level, n).some((o) => lines.has(o))) lit[level].set(n, word);
      });
    };
    let level = at;
    let lines = new Map([[line, "at"]]);
    while (levels[level][0] !== null) {
      const above = new Map();
      for (const n of lines.keys()) for (const o of origins(level, n)) above.set(o, "from");
      level = levels[level][0];
      lines = lit[level] = above;
    }
    lit[at].set(line, "at");
    for (let next = at + 1; next < levels.length; next++) {
      const source = levels[next][0];
      if (source >= at) below(next, source, lit[source], "to");
    }
    for (let next = 0; next < levels.length; next++) {
      const source = levels[next][0];
      if (next !== at && source !== null && source === levels[at][0] && source < at) {
        below(next, source, lit[source], next < at ? "from" : "to");
      }
    }
    return lit;
  }

  class Gather {
    constructor(section) {
      this.section = section;
      this.prefix = section.dataset.prefix;
      this.levels = JSON.parse(section.querySelector(".origins").textContent);
      this.panes = [...section.querySelectorAll(".pane")];
      this.buttons = new Map([...section.querySelectorAll(".rail button[data-level]")].map((b) => [+b.dataset.level, b]));
      this.drawings = [...section.querySelectorAll("figure[data-level]")];
      this.status = section.querySelector(".status");
      this.marked = [];
      this.lit = null;
      this.cursor = null;
      // On a phone the list is a row: begin where the first open level is.
      const [rail, first] = [section.querySelector(".rail"), section.querySelector('.rail [aria-pressed="true"]')];
      if (first) rail.scrollLeft = first.offsetLeft - rail.offsetLeft - 8;
      section.addEventListener("click", (event) => this.clicked(event));
      section.addEventListener("keydown", (event) => this.pressed(event));
    }

    line(level, n) { return document.getElementById(`${this.prefix}l${level}.${n}`); }

    place(element) {
      const [level, n] = element.id.slice(this.prefix.length + 1).split(".").map(Number);
      return { level, n };
    }

    clicked(event) {
      const target = event.target;
      const line = target.closest(".l");
      const shape = target.closest("figure[data-level] [data-line]");
      const button = target.closest("button");
      if (line && String(getSelection())) return;
      if (line) {
        const { level, n } = this.place(line);
        this.light(level, n, line.closest(".code"));
      } else if (shape) {
        this.light(+shape.closest("figure").dataset.level, +shape.dataset.line, null);
      } else if (button && button.dataset.all) {
        for (const level of this.buttons.keys()) this.open(level, true);
      } else if (button && button.classList.contains("close")) {
        this.open(+button.closest(".pane").dataset.level, false);
      } else if (button && button.dataset.level) {
        const pane = this.pane(+button.dataset.level);
        this.open(+button.dataset.level, pane.hidden || this.isNarrow());
        if (!pane.hidden) pane.scrollIntoView({ block: "nearest", inline: "start" });
      }
    }

    isNarrow() { return matchMedia("(max-width: 760px)").matches; }

    pane(level) { return this.panes.find((pane) => +pane.dataset.level === level); }

    open(level, isOpen) {
      const pane = this.pane(level);
      pane.hidden = !isOpen;
      this.buttons.get(level).setAttribute("aria-pressed", String(isOpen));
      if (isOpen && this.lit) this.show(pane);
    }

    clear() {
      for (const element of this.marked) element.classList.remove("at", "from", "to", "lit-shape");
      this.marked = [];
      this.lit = null;
      for (const button of this.buttons.values()) {
        button.querySelector(".count").textContent = "";
        button.querySelector(".map").style.backgroundImage = "";
      }
      this.status.textContent = "";
      this.setCursor(null);
    }

    light(level, n, kept) {
      const start = performance.now();
      this.clear();
      this.lit = closure(this.levels, level, n);
      let levels = 0;
      let lines = 0;
      this.lit.forEach((words, number) => {
        if (words.size) { levels++; lines += words.size; }
        for (const [at, word] of words) this.mark(this.line(number, at), word);
        const button = this.buttons.get(number);
        if (button && words.size) {
          button.querySelector(".count").textContent = words.size;
          button.querySelector(".map").style.backgroundImage = this.map(number, words);
        }
      });
      for (const figure of this.drawings) {
        for (const at of this.lit[+figure.dataset.level].keys()) {
          for (const shape of figure.querySelectorAll(`[data-line="${at}"]`)) this.mark(shape, "lit-shape");
        }
      }
      for (const pane of this.panes) if (!pane.hidden && !pane.contains(kept)) this.show(pane);
      this.setCursor(this.line(level, n));
      const name = this.pane(level) ? this.pane(level).querySelector("h4").textContent : "";
      this.status.textContent = `Line ${n + 1} of ${name}: ${lines} line${lines === 1 ? "" : "s"} in ${levels} levels.`;
      root.dataset.lightMs = (performance.now() - start).toFixed(2);
      try { history.replaceState(null, "", `#${this.prefix}L${level}.${n}`); } catch { /* a page without an address */ }
    }

    mark(element, word) {
      if (!element) return;
      element.classList.add(word);
      this.marked.push(element);
    }

    // A strip of the whole level with a mark at each lit line.
    map(level, words) {
      const count = this.levels[level][1].length;
      const stops = [];
      for (const n of [...words.keys()].sort((a, b) => a - b)) {
        const [low, high] = [(100 * n) / count, (100 * (n + Math.max(1, count / 60))) / count];
        const colour = `var(--${words.get(n) === "from" ? "from" : "to"}-edge)`;
        stops.push(`transparent ${low}%`, `${colour} ${low}%`, `${colour} ${high}%`, `transparent ${high}%`);
      }
      return `linear-gradient(90deg, ${stops.join(", ")})`;
    }

    // Scroll a level to its first lit line that is not folded; open the fold where all of them are.
    show(pane) {
      const lit = [...pane.querySelectorAll(".at, .from, .to")];
      if (!lit.length) return;
      const inView = (line) => !line.closest("details:not([open])");
      if (!lit.some(inView)) lit[0].closest("details").open = true;
      const code = pane.querySelector(".code");
      const box = code.getBoundingClientRect();
      const boxes = lit.filter(inView).map((line) => line.getBoundingClientRect());
      if (boxes.some((line) => line.top >= box.top && line.bottom <= box.bottom)) return;
      code.scrollTop += boxes[0].top - box.top - box.height / 3;
    }

    setCursor(element) {
      if (this.cursor) this.cursor.classList.remove("cursor");
      this.cursor = element;
      if (element) element.classList.add("cursor");
    }

    pressed(event) {
      const code = event.target.closest(".code");
      if (!code || event.altKey || event.ctrlKey || event.metaKey) return;
      const lines = [...code.querySelectorAll(".l")].filter((line) => line.offsetParent);
      const at = lines.indexOf(this.cursor);
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 };
      if (event.key in steps) {
        const next = at < 0 ? this.firstLit(code) || lines[0] : lines[Math.min(Math.max(at + steps[event.key], 0), lines.length - 1)];
        this.moveTo(next, code);
      } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        const shown = this.panes.filter((pane) => !pane.hidden);
        const pane = shown[shown.indexOf(code.closest(".pane")) + (event.key === "ArrowRight" ? 1 : -1)];
        if (!pane) return;
        const other = pane.querySelector(".code");
        other.focus();
        this.moveTo(this.firstLit(other) || other.querySelector(".l"), other);
      } else if ((event.key === "Enter" || event.key === " ") && at >= 0) {
        const { level, n } = this.place(this.cursor);
        this.light(level, n, code);
      } else return;
      event.preventDefault();
    }

    firstLit(code) { return [...code.querySelectorAll(".at, .from, .to")].find((line) => line.offsetParent); }

    moveTo(line, code) {
      this.setCursor(line);
      const [at, box] = [line.getBoundingClientRect(), code.getBoundingClientRect()];
      if (at.top < box.top) code.scrollTop += at.top - box.top - 8;
      if (at.bottom > box.bottom) code.scrollTop += at.bottom - box.bottom + 8;
    }
  }

  // The pane that plays one element: the step at hand is marked, and its line of the stage.
  class Walk {
    constructor(section) {
      this.section = section;
      this.steps = [...section.querySelectorAll("li")];
      section.addEventListener("click", (event) => {
        const [button, step] = [event.target.closest("[data-step]"), event.target.closest("li")];
        if (step) this.go(this.steps.indexOf(step));
        if (button) this.go({ first: 0, back: this.at - 1, next: this.at + 1, last: this.steps.length - 1 }[button.dataset.step]);
      });
      this.go(0);
    }

    go(number) {
      this.at = Math.max(0, Math.min(number, this.steps.length - 1));
      for (const lit of this.section.querySelectorAll(".at")) lit.classList.remove("at");
      const step = this.steps[this.at];
      const line = this.section.querySelector(`[data-n="${step.dataset.line}"]`);
      for (const element of [step, line]) {
        if (!element) continue;
        element.classList.add("at");
        const box = element.parentElement;
        if (element.offsetTop < box.scrollTop || element.offsetTop + element.offsetHeight > box.scrollTop + box.clientHeight) {
          box.scrollTop = element.offsetTop - box.clientHeight / 2;
        }
      }
      this.section.querySelector(".place").textContent = `step ${this.at + 1} of ${this.steps.length}`;
    }
  }

  for (const section of document.querySelectorAll(".steps")) new Walk(section);

  const gathers = [...document.querySelectorAll(".gather")].map((section) => new Gather(section));

  // "#gather-1" shows a gather, "#G1L3.12" a line of it, "#L3.12" a line of the first; else the comparison, if any.
  function follow() {
    const [, other, level, n] = /^#(?:G(\d+))?L(\d+)\.(\d+)$/.exec(location.hash) || [];
    const named = (/^#gather-(\d+)$/.exec(location.hash) || [])[1];
    const comparison = document.getElementById("comparison");
    const wanted = level === undefined && named === undefined && comparison ? -1 : Number(other || named || 0);
    const shown = wanted < gathers.length ? wanted : 0;
    gathers.forEach((gather, number) => { gather.section.hidden = number !== shown; });
    if (comparison) comparison.hidden = shown !== -1;
    for (const link of document.querySelectorAll("[data-gather]")) {
      link.toggleAttribute("aria-current", +link.dataset.gather === shown);
    }
    const gather = gathers[wanted];
    if (level === undefined || !gather || !gather.levels[level] || !(n in gather.levels[level][1])) return;
    if (gather.pane(+level)) gather.open(+level, true);
    gather.light(+level, +n, null);
  }

  const stored = (value) => {
    try {
      if (value) localStorage.setItem("gathernest-theme", value);
      return localStorage.getItem("gathernest-theme");
    } catch { return null; }
  };
  if (stored()) root.dataset.theme = stored();
  document.getElementById("theme").addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    stored(root.dataset.theme);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") gathers.forEach((gather) => gather.clear()); });
  window.addEventListener("hashchange", follow);
  follow();
})();
