// Words and shapes. Whatever comes from outside is put in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with these attributes and children; a child that is no element is text. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((one) => one != null).map((one) => (one instanceof Node ? one : String(one))));
  return made;
}

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(number) {
  return number == null ? "-" : whole.format(number);
}

/** Items a second. */
export function rate(each) {
  if (each == null) return "-";
  return each >= 10 || !each ? whole.format(each) : String(Number(each.toPrecision(2)));
}

/** How long ago. */
export function age(seconds) {
  if (seconds == null) return "-";
  if (seconds < 60) return `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function bytes(number) {
  if (number == null) return "-";
  let value = number, unit = 0;
  for (; value >= 1000 && unit < 4; unit++) value /= 1024;
  const shown = unit && value < 10 ? value.toFixed(1) : Math.round(value);
  return `${shown} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

/** What came in, as an area, and what went out, as a line; an hour from left to right. */
export function hourOf(hour, minutes) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "hour");
  svg.setAttribute("viewBox", `0 0 ${minutes - 1} 20`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const most = mostOf(hour);
  if (!most) {
    svg.append(path("out", `M0 20H${minutes - 1}`));
    return svg;
  }
  svg.append(path("in", line(hour.came, most, true)), path("out", line(hour.went, most, false)));
  return svg;
}

export function mostOf(hour) {
  let most = 0;
  if (hour) for (const one of [hour.came, hour.went]) for (const each of one) if (each > most) most = each;
  return most;
}

function line(counts, most, closed) {
  let d = "", begun = -1;
  for (let at = 0; at <= counts.length; at++) {
    const each = at < counts.length ? counts[at] : -1;
    if (each < 0) {  // nobody looked in that minute
      if (begun >= 0 && closed) d += `V20H${begun}Z`;
      begun = -1;
      continue;
    }
    const y = (20 - (19 * each) / most).toFixed(1);
    if (begun < 0) {
      d += closed ? `M${at} 20V${y}` : `M${at} ${y}`;
      begun = at;
    } else d += `L${at} ${y}`;
  }
  return d;
}

function path(kind, d) {
  const made = document.createElementNS(SVG, "path");
  made.setAttribute("class", kind);
  made.setAttribute("d", d);
  return made;
}

/** Names and values, a line each. */
export function pairs(kind, entries) {
  return el("dl", { class: kind }, ...entries.map(([name, value, mark]) =>
    el("div", {}, el("dt", {}, name), el("dd", { class: mark }, value))));
}

/** A table of a few rows. Columns are [head, kind, cell of a row]. */
export function table(kind, columns, rows, empty) {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  const head = el("div", { class: "row head", role: "row" }, ...columns.map(([name, each]) =>
    el("span", { class: each, role: "columnheader" }, name)));
  return el("div", { class: `table plain ${kind}`, role: "table" }, head, ...rows.map((row) =>
    el("div", { class: "row", role: "row" }, ...columns.map(([name, each, cell]) =>
      el("span", { class: each, role: "cell", "data-head": name }, cell(row) ?? "")))));
}
