"use strict";
// The filters of an estimate's page. They show what the command's options show: --provider, --market, --device, --deadline,
// --budget, and with "every placement" what --all shows. A row's data-r holds which of the times and its cost in millionths of a
// dollar, both exactly as the estimate has them, and which kind it is: a provider, a device, a number of devices, a market, and the group
// of the device, by which --device takes it too (V100: every variant).
{
  const form = document.querySelector("#filters");
  const count = document.querySelector("#count");
  const table = document.querySelector("#rows");
  const front = document.querySelector("#front .chart");
  const deviceAt = 2;
  const kinds = JSON.parse(form.dataset.kinds);
  const times = JSON.parse(form.dataset.times);
  const offers = [...table.tBodies[0].rows].map((row) => {
    const [time, micro, kind] = row.dataset.r.split(",").map(Number);
    const seconds = times[time];
    const [provider, device, , market, group] = kinds[kind];
    return { row, seconds, micro, kind, provider: [provider], device: [device, group], market: [market] };
  });
  const spots = front ? [...front.querySelectorAll(".spot")] : [];

  // 90s, 10m, 8h, 1d12h, 2 mo 9d: as the option --deadline takes them.
  const units = { y: 365 * 86400, mo: 30 * 86400, d: 86400, h: 3600, m: 60, s: 1 };
  const asSeconds = (text) => {
    const compact = text.replaceAll(" ", "").toLowerCase();
    if (!/^(?:\d+(?:\.\d+)?(?:mo|[ydhms]))+$/.test(compact)) return null;
    const seconds = [...compact.matchAll(/(\d+(?:\.\d+)?)(mo|[ydhms])/g)]
      .reduce((sum, [, number, unit]) => sum + Number(number) * units[unit], 0);
    return seconds > 0 ? seconds : null;
  };
  const asMicro = (text) => {
    const amount = text.trim().replace(/^\$/, "");
    return /^(?:\d+\.?\d*|\.\d+)$/.test(amount) && Number(amount) > 0 ? Math.round(Number(amount) * 1e6) : null;
  };

  // The limit that a field says; Infinity where it says none, or what cannot be read, which the field then tells.
  const limit = (field, read, most, hint, beyond) => {
    const text = field.value.trim();
    const value = text ? read(text) : Infinity;
    const problem = value === null ? hint : text && most && value > most ? beyond : "";
    field.setCustomValidity(problem);
    if (problem) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    return { value: value ?? Infinity, problem };
  };

  const update = () => {
    const fields = form.elements;
    const deadline = limit(fields.deadline, asSeconds, Number(form.dataset.longest),
      "deadline: write for example 90m, 8h or 1d12h", "deadline: this page has no longer runs; plan estimate --deadline has");
    const budget = limit(fields.budget, asMicro, Number(form.dataset.most) * 1e6,
      "budget: write for example 20 or $20", "budget: this page has no dearer runs; plan estimate --budget has");
    const wanted = ["provider", "market", "device"].map((name) => [name, fields[name].value]).filter(([, value]) => value);
    const seen = new Set();
    let shown = 0;
    for (const offer of offers) {
      const isWanted = wanted.every(([name, value]) => offer[name].includes(value))
        && offer.seconds <= deadline.value && offer.micro <= budget.value
        && (fields.every.checked || !seen.has(offer.kind));
      if (isWanted) { seen.add(offer.kind); shown += 1; }
      offer.row.hidden = !isWanted;
    }
    draw();
    const all = fields.every.checked ? "every placement" : "the best placement of each";
    count.textContent = [`${shown.toLocaleString("en")} of ${offers.length.toLocaleString("en")} offers, ${all}`,
      deadline.problem, budget.problem].filter(Boolean).join("; ");
    document.dispatchEvent(new Event("rows-shown"));
  };

  const offerOf = (spot) => offers[Number(spot.dataset.row)];
  const at = (spot, axis) => Number(spot.querySelector("circle").getAttribute(axis));

  // The front of what is shown: each point cheaper than every faster one. Among the shown it is told anew.
  const draw = () => {
    const shown = spots.filter((spot) => {
      spot.toggleAttribute("hidden", offerOf(spot).row.hidden);
      spot.classList.remove("front");
      spot.querySelector("text")?.remove();
      return !spot.hasAttribute("hidden");
    });
    shown.sort((one, other) => offerOf(one).seconds - offerOf(other).seconds || offerOf(one).micro - offerOf(other).micro);
    const best = [];
    for (const spot of shown) {
      if (!best.length || offerOf(spot).micro < offerOf(best.at(-1)).micro) best.push(spot);
    }
    const boxes = [];
    for (const spot of best) {
      spot.classList.add("front");
      spot.parentNode.append(spot);
      name(spot, boxes);
    }
    const path = best.map((spot, index) => (index ? `H${at(spot, "cx")}V${at(spot, "cy")}` : `M${at(spot, "cx")} ${at(spot, "cy")}`));
    front?.querySelector(".line.front")?.setAttribute("d", path.join("") || "M0 0");
  };

  // The name beside a point, where none that stands already is in its way.
  const name = (spot, boxes) => {
    const offer = offerOf(spot);
    const text = document.createElementNS(front.namespaceURI, "text");
    text.setAttribute("x", at(spot, "cx") + 7);
    text.setAttribute("y", at(spot, "cy") - 6);
    text.textContent = offer.row.cells[deviceAt].textContent + (offer.market.includes("spot") ? " spot" : "");
    spot.append(text);
    const box = text.getBBox();
    const isFree = boxes.every((other) => box.x > other.x + other.width || other.x > box.x + box.width
      || box.y > other.y + other.height || other.y > box.y + box.height);
    if (isFree && box.x + box.width <= front.viewBox.baseVal.width) boxes.push(box);
    else text.remove();
  };

  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(update));
  form.hidden = false;
  update();
}
