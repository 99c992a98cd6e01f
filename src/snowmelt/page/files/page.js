// Shows what the node sends: the state of all, whenever it looked, and what happened minute by minute.

import { age, bytes, count, el, hourOf, mostOf, pairs, rate, table } from "./drawing.js";

const MINUTES = 60;
const main = document.getElementById("main");
const live = document.getElementById("live");
const view = {
  state: null,
  queues: [],          // objects, as they came
  hours: new Map(),    // by queue: {came, went}, a count a minute
  one: null,           // all of the queue that is shown
  workers: null,       // which processes use queues; or why that is not told
  me: null,            // who one is here, and the key that goes with each press
  item: null,          // which one item is looked at, and what the node told of it
  asking: "",          // which button was pressed once and wants to be pressed again
  said: null,          // what came of the last press: {queue, text, bad}
  filter: "",
  sort: { by: "queue", down: false },
};

// --- queues ---------------------------------------------------------------------------------------

const COLUMNS = [
  ["queue", "name", (one) => one.queue],
  ["order", "order", (one) => one.order],
  ["ready", "n ready", (one) => count(one.leader ? one.ready : null)],
  ["leased", "n leased", (one) => count(one.leader ? one.leased : null)],
  ["oldest", "n oldest", (one) => age(one.oldest)],
  ["in/s", "n in", (one) => rate(one.in_per_second), "in_per_second"],
  ["out/s", "n out", (one) => rate(one.out_per_second), "out_per_second"],
  ["last hour", "hours", (one) => hourOf(view.hours.get(one.queue), MINUTES), null],
  ["dead", "n dead", (one) => count(one.leader ? one.dead : null)],
  ["bytes", "n bytes", (one) => bytes(one.leader ? one.bytes : null)],
  ["leader", "leader", (one) => one.leader || "nobody"],
  ["copies", "n copies", (one) => copies(one)],
  ["", "note", (one) => note(one), null],
];

function copies(one) {
  if (!one.leader) return "-";
  return one.copies === one.replicas ? String(one.copies) : `${one.copies} of ${one.replicas}`;
}

function note(one) {
  const said = [];
  if (one.paused) said.push("paused");
  if (one.away.length) said.push(`${one.away.join(" and ")} away`);
  if (one.copied < 100) said.push(`copied ${one.copied} %`);
  if (one.short_of_copies) said.push(`${count(one.short_of_copies)} short of copies`);
  if (one.waits) said.push(one.waits);
  return said.join("; ");
}

/** Whether copies are missing; a follower that only lacks the last step is not meant. */
function lacksCopies(one) {
  return one.away.length > 0 || one.copied < 100 || one.short_of_copies > 0;
}

function needsAttention(one) {
  return Boolean(!one.leader || one.waits || one.dead || lacksCopies(one));
}

function sorted() {
  const { by, down } = view.sort, wanted = view.filter.toLowerCase();
  const some = view.queues.filter((one) => one.queue.toLowerCase().includes(wanted));
  const way = down ? -1 : 1;
  return some.sort((a, b) => {
    const one = a[by] ?? -1, other = b[by] ?? -1;
    return (one < other ? -way : one > other ? way : 0) || (a.queue < b.queue ? -1 : 1);
  });
}

/** All queues, of which only those in sight are elements. */
class QueueList {
  constructor() {
    this.facts = el("div");
    this.body = el("div", { class: "body", role: "rowgroup" });
    this.sight = el("div", { class: "sight" });
    this.body.append(this.sight);
    this.count = el("span", { class: "soft count" });
    this.search = el("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter by name" });
    this.search.value = view.filter;
    this.search.addEventListener("input", () => { view.filter = this.search.value; this.update(); });
    this.head = el("div", { class: "row head", role: "row" });
    this.empty = el("p", { class: "empty", hidden: true });
    this.sort = el("select", { class: "sort", "aria-label": "Sort by" },
      ...COLUMNS.filter((one) => one[0] && one[3] !== null).map((one) => el("option", { value: one[3] ?? one[0] }, `by ${one[0]}`)));
    this.sort.addEventListener("change", () => this.sortBy(this.sort.value, this.sort.value !== "queue"));
    this.element = el("section", {}, this.facts, el("div", { class: "bar" }, this.search, this.sort, this.count),
      el("div", { class: "table queues", role: "table" }, this.head, this.body), this.empty);
    this.first = this.last = -1;
  }

  sortBy(by, down) {
    view.sort = { by, down };
    this.update();
  }

  update() {
    this.rows = sorted();
    const { by, down } = view.sort;
    this.sort.value = by;
    this.head.replaceChildren(...COLUMNS.map(([name, kind, , field]) => {
      const key = field === null ? null : field ?? name;
      const button = key && el("button", { type: "button" }, name + (by === key ? (down ? " ↓" : " ↑") : ""));
      button?.addEventListener("click", () => this.sortBy(key, by === key ? !down : key !== "queue" && key !== "order" && key !== "leader"));
      return el("span", { class: kind, role: "columnheader", "aria-sort": by === key && key ? (down ? "descending" : "ascending") : null }, button || name);
    }));
    const all = view.queues, sum = (name) => all.reduce((total, one) => total + (one[name] || 0), 0);
    const troubled = all.filter(needsAttention).length;
    this.facts.replaceChildren(pairs("facts", [
      ["ready", count(sum("ready"))], ["leased", count(sum("leased"))],
      ["in/s", rate(sum("in_per_second"))], ["out/s", rate(sum("out_per_second"))],
      ["dead", count(sum("dead"))], ["bytes", bytes(sum("bytes"))],
      ["need a look", count(troubled), troubled ? "warn" : null],
    ]));
    this.count.textContent = view.filter ? `${count(this.rows.length)} of ${count(all.length)}` : `${count(all.length)} queues`;
    this.empty.hidden = this.rows.length > 0;
    this.empty.textContent = all.length ? "No queue has this in its name." : "There are no queues yet: the first put makes one.";
    this.draw(true);
  }

  draw(anew) {
    if (!this.element.isConnected) return;
    if (!this.height) {
      this.sight.replaceChildren(...this.rows.slice(0, 1).map(queueRow));
      this.height = this.sight.firstChild?.offsetHeight;
    }
    const height = this.height || 30;
    this.body.style.height = `${this.rows.length * height}px`;
    const top = -this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.min(this.rows.length, Math.floor(top / height) - 10));
    const last = Math.min(this.rows.length, first + Math.ceil(innerHeight / height) + 20);
    if (!anew && Math.abs(first - this.first) < 5 && last === this.last) return;
    this.first = first;
    this.last = last;
    this.sight.style.transform = `translateY(${first * height}px)`;
    const focused = document.activeElement?.getAttribute?.("href");
    this.sight.replaceChildren(...this.rows.slice(first, last).map(queueRow));
    if (focused?.startsWith("#queue/")) {
      for (const row of this.sight.children) if (row.getAttribute("href") === focused) row.focus({ preventScroll: true });
    }
  }
}

function queueRow(one) {
  const bad = !one.leader, warned = needsAttention(one);
  return el("a", { class: warned ? "row attention" : "row", role: "row", href: `#queue/${encodeURIComponent(one.queue)}` },
    ...COLUMNS.map(([, kind, cell]) => {
      let shown = kind;
      if (kind === "n dead" && one.dead) shown += " bad";
      if (kind === "note") shown += bad ? " bad" : warned ? " warn" : " soft";
      if (kind === "leader" && bad) shown += " bad";
      if (kind === "n copies" && lacksCopies(one)) shown += " warn";
      const said = cell(one);
      const title = ["name", "order", "leader", "note"].includes(kind) ? said : null;
      return el("span", { class: shown, role: "cell", title: title || null }, said);
    }));
}

// --- one queue ------------------------------------------------------------------------------------

async function askForQueue() {
  const name = route().name;
  if (name === null) return;
  let told;
  try {
    const answer = await fetch(`queue?name=${encodeURIComponent(name)}`);
    told = answer.ok ? await answer.json() : { queue: name, settings: {}, parts: [], why: await answer.text() };
  } catch {
    return;  // the node has gone; the stream says so
  }
  if (route().name === name) {
    view.one = told;
    show();
  }
}

// --- buttons --------------------------------------------------------------------------------------

const busy = new Set();  // those whose answer is on its way

/** A button that does something; what can't be undone is asked once more. */
function button(label, queue, press, again = "") {
  const key = JSON.stringify([queue, press]);
  const asks = again && view.asking === key;
  const made = el("button", { type: "button", class: again ? "bad" : "", "data-key": key, disabled: busy.has(key) }, asks ? again : label);
  made.addEventListener("click", () => {
    if (again && !asks) {
      view.asking = key;
      setTimeout(() => { if (view.asking === key) { view.asking = ""; show(); } }, 5000);
      show();
    } else send(key, queue, press, label);
  });
  return made;
}

async function send(key, queue, press, label) {
  if (busy.has(key)) return;
  busy.add(key);
  view.asking = "";
  show();
  const once = [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
  let text, bad = true;
  try {
    const answer = await fetch("do", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Snowmelt-Key": view.me.key },
      body: JSON.stringify({ queue, ...press, once }),
    });
    text = await answer.text();
    if (answer.ok) {
      const { done } = JSON.parse(text);
      text = press.what === "pause" || press.what === "resume" ? `${label}: done` : `${label}: ${done ? `${count(done)} ${done === 1 ? "item" : "items"}` : "there was nothing to do"}`;
      bad = false;
    }
  } catch {
    text = "the node did not answer: look whether it was done";
  }
  busy.delete(key);
  view.said = { queue: route().name, text: text.trim(), bad };
  show();
  askForQueue();
  askForItem();
}

function actions(name, line, told) {
  const may = told?.may ?? [];
  const made = [];
  if (may.includes("manage")) {
    made.push(line?.paused ? button("Resume", name, { what: "resume" }) : button("Pause", name, { what: "pause" }));
    if (line?.dead) {
      const many = `${count(line.dead)} dead ${line.dead === 1 ? "item" : "items"}`;
      made.push(button(`Bring back ${many}`, name, { what: "bring_back_all" }));
      made.push(button(`Drop ${many}`, name, { what: "drop_all" }, `Press again to drop ${many}`));
    }
  } else if (told && !told.why) {
    made.push(el("span", { class: "soft" }, view.me?.user == null
      ? "Buttons and items are for who came by a user's link: snowmelt page, with --token-file."
      : `${view.me.user} may change nothing here: that takes the right manage.`));
  }
  const said = view.said?.queue === name ? view.said : null;
  made.push(el("span", { role: "status", class: said?.bad ? "bad" : "soft", id: "said" }, said?.text ?? ""));
  return el("div", { class: "actions" }, ...made);
}

const LEASED = [
  ["held", "n", (row) => age(row.held)],
  ["lease lasts", "n", (row) => age(row.left)],
  ["by", "why", (row) => (row.program ? `${row.program}${row.pid ? `, ${row.pid} at ${row.host}` : ""}` : "-")],
];
const DELAYED = [["due in", "n", (row) => age(row.left)], ["why", "why", (row) => row.reason]];
const WAITING = [["why", "why", (row) => row.reason]];

function items(title, rows, empty, told, dead, more = WAITING, kind = "") {
  if (!rows) return [];
  const manages = dead && told.may.includes("manage");
  const one = (row) => ({ position: row.position, ranked: told.ranked, dead, ...(row.priority == null ? {} : { priority: row.priority }) });
  const columns = [
    ["position", "", (row) => shows(row, told)],
    ["item", "what", body],
    ["put", "n", (row) => (row.put_at == null ? "-" : `${age(Math.max(0, Date.now() / 1000 - row.put_at))} ago`)],
    ["failures", "n", (row) => count(row.failures)],
    ...more,
  ];
  if (manages) columns.push(["", "does", (row) => el("span", {},
    button("Bring back", row.queue, { what: "bring_back", ...one(row) }),
    button("Drop", row.queue, { what: "drop", ...one(row) }, "Press again"))]);
  return [el("h2", {}, title), table(manages ? "items does" : `items ${kind}`, columns, rows, empty)];
}

/** One item: found by its position, also one that is leased or delayed. Its fields outlive a drawing. */
class ItemFinder {
  constructor() {
    const field = (name, hint, attributes) => el("input", { name, placeholder: hint, "aria-label": hint, autocomplete: "off", ...attributes });
    this.position = field("position", "Position", { inputmode: "numeric", required: true, pattern: "[0-9]+" });
    this.priority = field("priority", "Priority", { inputmode: "numeric", required: true, pattern: "[0-9]+" });
    this.to = field("to", "Move to queue", {});
    this.to.addEventListener("input", () => show());
    this.form = el("form", { class: "actions" });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      look(route().name, this.position.value, this.priority.isConnected ? this.priority.value : null);
    });
  }

  draw(told) {
    if (!told?.may?.includes("peek")) return [];
    const numbered = told.settings.priorities > 1;
    this.form.replaceChildren(...[this.position, numbered ? this.priority : null, el("button", { type: "submit" }, "Show item")].filter(Boolean));
    const made = [el("h2", {}, "One item"), this.form], item = view.item;
    if (item?.why) made.push(el("p", { class: "bad" }, item.why));
    if (!item?.told) return made;
    const { row, standing, life, unknown, queue, position, ranked } = item.told;
    const one = { position, ranked, ...(item.priority == null ? {} : { priority: Number(item.priority) }) };
    made.push(pairs("pairs item", [
      ["position", `${position}${item.priority == null ? "" : ` of priority ${item.priority}`}${queue === told.queue ? "" : ` in ${queue}`}`],
      ["now", standing], ...(row ? [["item", body(row)], ["failures", count(row.failures)], ["why", row.reason || "-"]] : [])]));
    if (row && told.may.includes("manage")) {
      const to = this.to.value.trim();
      made.push(el("div", { class: "actions" },
        standing === "ready" ? null : button("Bring back this item", queue, { what: "bring_back", ...one }),
        button("Drop this item", queue, { what: "drop", ...one }, "Press again to drop it"),
        this.to, to ? button(`Move it to ${to}`, queue, { what: "move", to, ...one }) : null));
    }
    made.push(el("h2", {}, "Its life"));
    if (unknown) made.push(el("p", { class: "soft" }, `Not known: ${unknown}.`));
    made.push(table("life", [["when, UTC", "", ([when]) => when], ["what", "what", ([, what]) => what]], life, "There are no records of it."));
    return made;
  }
}

/** Asks for one item, and its life. */
async function look(queue, position, priority) {
  view.item = { queue, position, priority, told: view.item?.queue === queue && view.item.position === position ? view.item.told : null };
  await askForItem();
}

async function askForItem() {
  const asked = view.item;
  if (!asked || route().name === null) return;
  const rank = asked.priority == null ? "" : `&priority=${encodeURIComponent(asked.priority)}`;
  let told = null, why = "";
  try {
    const answer = await fetch(`item?name=${encodeURIComponent(asked.queue)}&position=${encodeURIComponent(asked.position)}${rank}`);
    if (answer.ok) told = await answer.json();
    else why = (await answer.text()).trim();
  } catch {
    return;  // the stream says so
  }
  if (view.item !== asked) return;
  Object.assign(asked, { told, why });
  show();
}

const body = (row) => row.failures == null ? "large: press its position" : `${row.body}${row.bytes > 120 ? ` … ${bytes(row.bytes)}` : ""}`;

/** The position of an item, which shows it. */
function shows(row, told) {
  const rank = row.priority == null ? "" : ` of priority ${row.priority}`;
  const made = el("button", { type: "button", class: "link", "data-key": `item ${row.queue} ${row.position}${rank}`, title: "Show this item and its life" },
    `${row.position}${rank}${row.queue === told.queue ? "" : ` in ${row.queue}`}`);
  made.addEventListener("click", () => look(row.queue, row.position, row.priority));
  return made;
}

const PROCESS = [
  ["program", "", (one) => one.program],
  ["process", "", (one) => (one.pid ? `${one.pid} at ${one.host}` : "")],
  ["items", "n", (one) => count(one.items)],
  ["longest held", "n", (one) => (one.items ? age(one.held) : "-")],
  ["waiting gets", "n", (one) => count(one.gets_waiting)],
  ["waiting puts", "n", (one) => count(one.puts_waiting)],
];

function consumers(rows) {
  if (!rows) return [];
  return [el("h2", {}, "Consumers"), table("users", PROCESS, rows, "Nobody has items of it, or waits.")];
}

const COUNTS = ["ready", "delayed", "leased", "assigned", "dead", "staged"];
const GROWN = ["put", "delivered", "done", "returned", "failed", "expired", "died", "purged", "aged", "lost"];
const MORE = ["schedules", "waiting_gets", "waiting_puts", "producers", "short_of_copies", "followers_behind", "blocks"];

function oneQueue(name) {
  const line = view.queues.find((one) => one.queue === name);
  const told = view.one?.queue === name ? view.one : null;
  const parts = told?.parts ?? [], known = parts.map((one) => one.status).filter(Boolean);
  const sum = (field) => known.reduce((total, one) => total + one[field], 0);
  const most = (field) => known.reduce((so, one) => (one[field] != null && (so == null || one[field] > so) ? one[field] : so), null);
  const made = [el("h1", {}, name)];
  if (line) {
    const said = note(line);
    made.push(el("p", { class: needsAttention(line) ? "warn" : "soft" },
      `${line.order || "nobody leads it"}${line.leader ? `, led by ${line.leader}, ${copies(line)} ${line.copies === 1 && line.replicas === 1 ? "copy" : "copies"}` : ""}${said ? `; ${said}` : ""}`));
    made.push(pairs("facts", [
      ["ready", count(line.ready)], ["leased", count(line.leased)], ["oldest", age(line.oldest)],
      ["in/s", rate(line.in_per_second)], ["out/s", rate(line.out_per_second)],
      ["dead", count(line.dead), line.dead ? "bad" : null], ["bytes", bytes(line.bytes)],
    ]));
  } else if (view.state) made.push(el("p", { class: "warn" }, "There is no queue of this name."));
  made.push(actions(name, line, told));
  if (told) {
    made.push(...items("Dead letters", told.dead, "Nothing is dead.", told, true));
    made.push(...items("What comes next", told.items, "Nothing waits.", told, false));
    made.push(...items("Leased, the longest held first", told.leased, "Nobody has an item.", told, false, LEASED, "held"));
    made.push(...items("Delayed, the next due first", told.delayed, "Nothing is delayed.", told, false, DELAYED, "later"));
    made.push(...finder.draw(told));
    made.push(...consumers(told.consumers));
  }
  const hour = view.hours.get(name);
  made.push(el("h2", {}, "Last hour", el("span", { class: "key" }), el("span", { class: "soft" }, "in"),
    el("span", { class: "key of-out" }), el("span", { class: "soft" }, "out")));
  const top = mostOf(hour) ? `${rate(mostOf(hour) / 60)}/s` : "nothing that this node has seen";
  made.push(el("div", { class: "chart" }, el("span", { class: "most" }, top), hourOf(hour, MINUTES)));
  made.push(el("div", { class: "under" }, el("span", {}, "an hour ago"), el("span", {}, "now")));
  if (told?.why) made.push(el("p", { class: "bad" }, told.why));
  if (parts.length > 1) {
    made.push(el("h2", {}, "Partitions"), table("parts", [
      ["partition", "", (one) => (one.number ? String(one.number) : "0, the anchor")],
      ["leader", "", (one) => one.status?.leader ?? "nobody"],
      ["followers", "", (one) => one.status?.followers.join(" ") ?? one.why],
      ["ready", "n", (one) => count(one.status?.ready)],
      ["leased", "n", (one) => count(one.status?.leased)],
      ["dead", "n", (one) => count(one.status?.dead)],
      ["oldest", "n", (one) => age(one.status?.oldest_ready)],
      ["bytes", "n", (one) => bytes(one.status?.bytes)],
    ], parts, ""));
  } else if (parts[0]?.why) made.push(el("p", { class: "bad" }, parts[0].why));
  if (known.length) {
    const numbers = (fields) => fields.map((one) => [one.replaceAll("_", " "), count(sum(one))]);
    const ages = ["oldest_ready", "oldest_leased", "oldest_delayed", "delivery_age"];
    made.push(el("h2", {}, "Items"), pairs("pairs", [...numbers(COUNTS), ...ages.map((one) => [one.replaceAll("_", " "), age(most(one))])]));
    made.push(el("h2", {}, "Since it was made"), pairs("pairs", numbers(GROWN)));
    made.push(el("h2", {}, "Who waits, and copies"), pairs("pairs", [...numbers(MORE),
      ["followers", [...new Set(known.flatMap((one) => one.followers))].join(" ") || "-"], ["term", count(most("term"))]]));
    made.push(el("h2", {}, "Settings"), pairs("pairs", Object.entries(told.settings).map(([option, value]) =>
      [option.replaceAll("_", " "), option.startsWith("max") && value === 0 ? "none" : typeof value === "number" ? value.toLocaleString("en-US") : String(value)])));
  }
  return el("section", {}, ...made);
}

// --- cluster, batons, pools -----------------------------------------------------------------------

function cluster() {
  const { state, queues } = view, led = new Map(), away = new Map();
  for (const one of queues) {
    for (const node of one.leader.split("+")) led.set(node, (led.get(node) ?? 0) + 1);
    for (const node of one.away) away.set(node, (away.get(node) ?? 0) + 1);
  }
  const gone = [...away.keys()].filter((node) => !state.members.some((one) => one.id === node));
  const rows = [...state.members, ...gone.sort().map((id) => ({ id, address: "away", starts: null, heard: null, gone: true }))];
  const behind = queues.filter((one) => one.leader && lacksCopies(one));
  return el("section", {},
    pairs("facts", [["view", count(state.epoch)], ["members", count(state.members.length)], ["away", count(gone.length), gone.length ? "bad" : null],
      ["coordinator", state.coordinator || "-"], ["short of copies", count(behind.length), behind.length ? "warn" : null]]),
    table("members", [
      ["node", "", (one) => one.id],
      ["address", "", (one) => (one.gone ? el("span", { class: "bad" }, `away, with copies of ${count(away.get(one.id))} ${away.get(one.id) === 1 ? "queue" : "queues"}`) : one.address)],
      ["role", "", (one) => (one.gone ? "" : one.id === state.coordinator ? "coordinator" : "member")],
      ["starts", "n", (one) => (one.gone ? "" : count(one.starts))],
      ["last heard", "n", (one) => (one.gone ? "" : one.heard == null ? "-" : `${one.heard} s ago`)],
      ["leads", "n", (one) => count(led.get(one.id) ?? 0)],
    ], rows, "This node is in no view."),
    el("h2", {}, "Missing copies"),
    table("ways", [
      ["queue", "", (one) => el("a", { href: `#queue/${encodeURIComponent(one.queue)}` }, one.queue)],
      ["leader", "", (one) => one.leader],
      ["copies", "n", copies],
      ["copied", "n", (one) => `${one.copied} %`],
      ["", "", note],
    ], behind.slice(0, 200), "All copies are whole."),
    behind.length > 200 ? el("p", { class: "soft" }, `and ${count(behind.length - 200)} more`) : null);
}

function batons() {
  return el("section", {}, el("p", { class: "soft" }, "Batons that somebody holds or waits for, by the node where that is."),
    table("batons", [
      ["baton", "", (one) => one.name],
      ["state", "", (one) => one.state],
      ["at", "", (one) => one.holder || "-"],
      ["waiting", "n", (one) => count(one.waiting)],
      ["they wait at", "", (one) => one.waits_at.map(([node, some]) => `${node} (${count(some)})`).join(", ")],
    ], view.state.batons, "Nobody holds a baton, or waits for one."));
}

function pools() {
  const makers = (one) => one.producers.map(([name, stock, each]) => `${name}: ${count(stock)}${each ? `, ${rate(each)}/s` : ""}`).join("; ");
  return el("section", {}, el("p", { class: "soft" }, "Objects of a pool stay with who made them. What each producer has, as it said last."),
    table("pools", [
      ["pool", "", (one) => one.name],
      ["producers", "n", (one) => count(one.producing)],
      ["consumers", "n", (one) => count(one.consuming)],
      ["stock", "n", (one) => count(one.stock)],
      ["who has what", "", (one) => makers(one) + (one.producing > one.producers.length ? " …" : "")],
    ], view.state.pools, "Nobody is in a pool."));
}

async function askForWorkers() {
  if (route().place !== "workers" || route().name !== null) return;
  try {
    const answer = await fetch("workers");
    view.workers = answer.ok ? await answer.json() : (await answer.text()).trim();
  } catch {
    return;
  }
  show();
}

function workers() {
  const rows = view.workers, told = Array.isArray(rows);
  return el("section", {}, el("p", { class: "soft" }, told || rows == null ? "Processes that have items, or wait: of the 50 queues with most of that." : rows),
    told ? table("workers", [
      ...PROCESS,
      ["queues", "links", (one) => el("span", {}, ...one.queues.flatMap((name, at) => [at ? ", " : "", el("a", { href: `#queue/${encodeURIComponent(name)}` }, name)]), one.using > one.queues.length ? " …" : "")],
    ], rows, "Nobody has items, or waits.") : null);
}

// --- the page -------------------------------------------------------------------------------------

const list = new QueueList(), finder = new ItemFinder();
const TABS = [
  ["queues", "Queues", () => view.queues.length],
  ["cluster", "Cluster", () => view.state.members.length],
  ["batons", "Batons", () => view.state.batons.length],
  ["pools", "Pools", () => view.state.pools.length],
  ["workers", "Workers", () => (Array.isArray(view.workers) ? view.workers.length : null)],
];

function route() {
  const [place, ...rest] = location.hash.slice(1).split("/");
  let name = null;
  try {
    if (place === "queue") name = decodeURIComponent(rest.join("/"));
  } catch { /* a link that was cut off */ }
  return { place: TABS.some(([one]) => one === place) ? place : "queues", name };
}

function show() {
  const { state } = view, { place, name } = route();
  document.getElementById("tabs").replaceChildren(...TABS.map(([key, title, many]) =>
    el("a", { href: `#${key}`, "aria-current": key === place ? "page" : null }, `${title} `, state && many() != null ? el("small", {}, count(many())) : null)));
  if (!state) return;
  document.title = name ? `${name} - Snowmelt` : "Snowmelt";
  document.getElementById("where").textContent = `${state.node} is ${state.standing}${state.epoch ? ` in view ${state.epoch} of cluster ${state.cluster}` : ""}`;
  const trouble = document.getElementById("trouble");
  trouble.hidden = !state.trouble;
  trouble.textContent = state.trouble ? `What is shown is old: ${state.trouble}` : "";
  if (name !== null) {
    const focused = document.activeElement, key = focused?.dataset?.key, at = focused?.selectionStart;
    main.replaceChildren(oneQueue(name));
    if (focused?.name && main.contains(focused)) {  // a field of the finder
      focused.focus({ preventScroll: true });
      focused.setSelectionRange(at, at);
    }
    if (key) for (const one of main.querySelectorAll("button")) if (one.dataset.key === key) one.focus({ preventScroll: true });
  }
  else if (place === "queues") {
    if (main.firstChild !== list.element) main.replaceChildren(list.element);
    list.update();
  } else main.replaceChildren({ cluster, batons, pools, workers }[place]());
}

function said(text, kind) {
  live.textContent = text;
  live.className = kind;
}

async function whoAmI() {
  try {
    const answer = await fetch("me");
    if (answer.ok) view.me = await answer.json();
  } catch { /* the stream says so */ }
}

function listen() {
  whoAmI();
  const source = new EventSource("events");
  source.addEventListener("state", (event) => {
    const begun = performance.now();
    const state = JSON.parse(event.data), { fields } = state;
    view.queues = state.queues.map((row) => Object.fromEntries(fields.map((name, at) => [name, row[at]])));
    view.state = state;
    show();
    document.body.getBoundingClientRect();  // so that laying it out counts
    performance.measure("draw", { start: begun, end: performance.now() });
    said(`live, every ${state.every % 1 ? state.every.toFixed(1) : state.every} s`, state.trouble ? "bad" : "good");
    if (route().name !== null) {
      askForQueue();
      askForItem();
    } else askForWorkers();
  });
  source.addEventListener("hour", (event) => {
    view.hours = new Map(JSON.parse(event.data).hours.map(([queue, came, went]) => [queue, { came, went }]));
    if (view.state) show();
  });
  source.addEventListener("minute", (event) => {
    const news = new Map(JSON.parse(event.data).hours.map(([queue, came, went]) => [queue, [came[0], went[0]]]));
    for (const queue of new Set([...view.hours.keys(), ...news.keys()])) {
      const hour = view.hours.get(queue) ?? { came: Array(MINUTES).fill(0), went: Array(MINUTES).fill(0) };
      const [came, went] = news.get(queue) ?? [0, 0];
      view.hours.set(queue, { came: [...hour.came.slice(1), came], went: [...hour.went.slice(1), went] });
    }
    if (view.state) show();
  });
  source.addEventListener("error", () => {
    const ended = source.readyState === EventSource.CLOSED;
    said(ended ? "refused: open it by a new link" : "not connected", "bad");
    if (ended) setTimeout(listen, 5000);
  });
}

addEventListener("hashchange", () => {
  view.one = view.said = view.item = null;
  finder.form.reset();
  finder.to.value = "";
  view.asking = "";
  scrollTo(0, 0);
  show();
  askForQueue();
  askForWorkers();
});
let asked = false;
addEventListener("scroll", () => {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; if (main.firstChild === list.element) list.draw(false); });
}, { passive: true });
addEventListener("resize", () => {
  list.height = 0;
  if (main.firstChild === list.element) list.draw(true);
});
show();
listen();
