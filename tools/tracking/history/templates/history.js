"use strict";
const commits = JSON.parse(document.getElementById("commits").textContent);
const figures = [...document.querySelectorAll("figure")];

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// The result under the pointer, in words below its chart.
for (const figure of figures) {
  const places = figure.dataset.places.split(" ").map(Number), values = figure.dataset.values.split("|");
  const said = figure.querySelector(".result"), plot = figure.querySelector("svg");
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * Math.max(commits.length - 1, 1);
    let nearest = 0;
    places.forEach((each, number) => {
      if (Math.abs(each - place) < Math.abs(places[nearest] - place)) nearest = number;
    });
    const [name, date, subject] = commits[places[nearest]];
    said.textContent = `${values[nearest]} at ${name}, ${date}: ${subject}`;
  });
}

const find = document.getElementById("find"), changed = document.getElementById("changed");
function show() {
  const word = find.value.toLowerCase();
  for (const figure of figures) {
    const name = figure.querySelector("b").textContent.toLowerCase();
    figure.hidden = !name.includes(word) || (changed.checked && figure.dataset.changes === "0");
  }
  for (const group of document.querySelectorAll(".group")) group.hidden = !group.querySelector("figure:not([hidden])");
}
find.addEventListener("input", show);
changed.addEventListener("change", show);
