"use strict";
// A chart is one stop of the Tab key; arrow keys, Home and End go from point to point. The point under the pointer or the
// keyboard is told in the line below the chart, and its row, where it has one, is marked in the table.
for (const figure of document.querySelectorAll("figure")) {
  const chart = figure.querySelector("svg.chart");
  const tip = figure.querySelector(".tip");
  if (!chart || !tip) continue;
  const rows = document.querySelectorAll("#rows tbody tr");
  const atX = (spot) => Number(spot.querySelector("circle").getAttribute("cx"));
  const shown = () =>
    [...chart.querySelectorAll(".spot:not([hidden])")].sort((one, other) => atX(one) - atX(other));

  // A point of a table's row is told as that row tells it; where, device and market speak for themselves.
  const titles = [...document.querySelectorAll("#rows th")].map((head) => head.textContent);
  for (const spot of chart.querySelectorAll(".spot")) {
    const row = rows[Number(spot.dataset.row ?? NaN)];
    if (!row || spot.querySelector("title")) continue;
    const title = document.createElementNS(chart.namespaceURI, "title");
    const [rank, ...texts] = [...row.cells].map((cell, index) => (index < 4 ? "" : `${titles[index]} `) + cell.textContent);
    title.textContent = `row ${rank}: ${texts.join("; ")}`;
    spot.prepend(title);
    spot.setAttribute("role", "img");
  }

  const clear = () => {
    for (const marked of document.querySelectorAll(".chosen")) marked.classList.remove("chosen");
  };
  const tell = (spot) => {
    clear();
    tip.textContent = spot.querySelector("title").textContent;
    const row = rows[Number(spot.dataset.row ?? NaN)];
    if (row) row.classList.add("chosen");
    spot.classList.add("chosen");
    return row;
  };
  const isSpot = (event) => event.target.closest?.(".spot");

  // One point takes the Tab key: the last one that had it, or the first that is shown.
  const offer = () => {
    const spots = shown();
    const stop = spots.find((spot) => spot.getAttribute("tabindex") === "0") ?? spots[0];
    for (const spot of chart.querySelectorAll(".spot")) spot.setAttribute("tabindex", spot === stop ? "0" : "-1");
  };
  chart.addEventListener("pointerover", (event) => { const spot = isSpot(event); if (spot) tell(spot); });
  // At the figure: an SVG with a listener for focus becomes a stop of the Tab key itself.
  figure.addEventListener("focusin", (event) => { const spot = isSpot(event); if (spot) tell(spot); });
  const choose = (event) => {
    const spot = isSpot(event);
    const row = spot && tell(spot);
    if (row) row.scrollIntoView({ block: "nearest" });
  };
  chart.addEventListener("click", choose);
  chart.addEventListener("keydown", (event) => {
    const spot = isSpot(event);
    if (!spot) return;
    if (event.key === "Enter" || event.key === " ") { choose(event); event.preventDefault(); return; }
    const spots = shown();
    const here = spots.indexOf(spot);
    const places = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1, Home: 0, End: spots.length - 1 };
    const next = spots[places[event.key]];
    if (!next) return;
    event.preventDefault();
    spot.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  document.addEventListener("rows-shown", () => { tip.textContent = ""; clear(); offer(); });
  offer();
}
