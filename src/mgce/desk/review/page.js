"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.rows, classes = data.classes;
  const at = (id) => document.getElementById(id);
  const LETTERS = { k: "keep", s: "suggestion", d: "drop", x: "skip" };
  const byKey = new Map(classes.map((one, i) => [one.key, i]).filter(([key]) => key));
  // decisions: by the place of a row, [decision, class or null]; past: what undoing brings back.
  // notes: texts by the place of a row.
  let state = { decisions: {}, place: 0, past: [], notes: {} };

  function load() {
    try {
      const stored = JSON.parse(localStorage.getItem(data.id));
      if (stored && stored.decisions && Array.isArray(stored.past)) state = { notes: {}, ...stored };
    } catch { /* nothing was stored, or this browser stores nothing */ }
  }

  // Keeps the state, and says what was done.
  function store(done) {
    try {
      localStorage.setItem(data.id, JSON.stringify(state));
    } catch {
      done += " This browser does not keep the decisions. Save them before you close the page.";
    }
    say(done);
  }

  function say(text) { at("message").textContent = text; }

  function echo(row, label, decision) {
    const [named, given] = [`${data.named} ${row.name}`, classes[row.given].text];
    if (label !== null) return label === row.given ? `${named} keeps ${given}.` : `${named}: ${given} becomes ${classes[label].text}.`;
    return decision === "drop" ? `${named} is dropped.` : `${named} is skipped.`;
  }

  // The first row from here on without a decision, else the first of all; -1 if every row has one.
  function open(from) {
    for (let i = from; i < rows.length; i++) if (!(i in state.decisions)) return i;
    for (let i = 0; i < from; i++) if (!(i in state.decisions)) return i;
    return -1;
  }

  function decide(decision, label) {
    const row = rows[state.place];
    if (decision === "keep") label = row.given;
    if (decision === "suggestion") label = row.alternative;
    if (decision === "drop" || decision === "skip") label = null;
    state.past.push([state.place, state.decisions[state.place] || null]);
    state.decisions[state.place] = [decision, label];
    const next = open(state.place + 1);
    if (next >= 0) state.place = next;
    store(echo(row, label, decision));
    show();
    // What a screen reader has to say of the next row; all others see it.
    at("next").textContent = next >= 0 ? summary(next) : "";
  }

  function choose(label) {
    const row = rows[state.place];
    decide(label === row.given ? "keep" : label === row.alternative ? "suggestion" : "other", label);
  }

  function undo() {
    const last = state.past.pop();
    if (!last) return say("Nothing to undo.");
    const [place, before] = last;
    if (before) state.decisions[place] = before; else delete state.decisions[place];
    state.place = place;
    store(`Undone: ${before ? echo(rows[place], before[1], before[0]) : `${data.named} ${rows[place].name} is open again.`}`);
    show();
  }

  function move(step) {
    const place = state.place + step;
    if (!(place in rows)) return say(step < 0 ? "There is no row before this one." : "There is no row behind this one.");
    state.place = place;
    store("");
    show();
  }

  function summary(i) {
    const row = rows[i], decided = state.decisions[i];
    const said = decided ? ` Decided: ${decided[1] === null ? decided[0] : classes[decided[1]].text}.` : "";
    return `${data.named} ${row.name}: ${classes[row.given].text}, or ${classes[row.alternative].text}?${said}`;
  }

  // A cell of CSV that no spreadsheet runs as a formula.
  function cell(text) {
    const safe = text.replace(/(^|[,;|\t\r\n])(["\s]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])/g, "$1'$2");
    return /[",;\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  const MOST = 200; // rows of the list: more are not read
  function find() {
    const [which, label, words] = [at("which").value, at("of").value, at("search").value.toLowerCase()];
    const found = [];
    rows.forEach((row, i) => {
      const [decision, now] = state.decisions[i] || ["open", row.given];
      const fits = !which || which === decision || (which === "changed" && now !== null && now !== row.given);
      if (!fits || (label && Number(label) !== row.given && Number(label) !== now)) return;
      const text = [row.name, row.text || "", state.notes[i] || "", ...row.cells].join("\n").toLowerCase();
      if (!words || text.includes(words)) found.push(i);
    });
    at("n-found").textContent = `${found.length} of ${rows.length} rows${found.length > MOST ? `, of which the first ${MOST} are listed` : ""}`;
    at("found").replaceChildren(...found.slice(0, MOST).map((i) => {
      const made = element("li", ""), button = element("button", summary(i));
      button.type = "button";
      button.addEventListener("click", () => { state.place = i; store(summary(i)); show(); });
      made.append(button);
      return made;
    }));
  }

  function csv() {
    const places = Object.keys(state.decisions).map(Number);
    const last = Math.max(-1, ...places);
    const lines = [data.head];
    // A row that was passed over counts as skipped.
    for (let i = 0; i <= last; i++) {
      const [decision, label] = state.decisions[i] || ["skip", null];
      lines.push([rows[i].csv[0], decision, label === null ? "" : classes[label].csv, rows[i].csv[1], cell(state.notes[i] || "")].join(","));
    }
    return lines.join("\n") + "\n";
  }

  function save() {
    if (!Object.keys(state.decisions).length) return say("No row is decided yet.");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    link.download = data.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say(`Saved as ${data.file}, in the folder of downloads. Give this file to mgce with --checked.`);
  }

  function element(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  }

  function show() {
    const row = rows[state.place], decided = state.decisions[state.place];
    const n = Object.keys(state.decisions).length;
    at("progress").value = n;
    const finished = n === rows.length;
    at("count").textContent = finished
      ? `Finished: all ${n} rows are decided. Save the decisions, then close this page.`
      : `${n} of ${rows.length} decided`;
    at("count").classList.toggle("finished", finished);
    const line = row.line ? `, line ${row.line} of the file` : "";
    at("where").textContent = `${data.named} ${row.name}${line} · ${state.place + 1} of ${rows.length} on this page`;
    at("given").textContent = classes[row.given].text;
    at("alternative").textContent = classes[row.alternative].text;
    at("cells").replaceChildren(...data.columns.flatMap((name, i) => [element("dt", name), element("dd", row.cells[i])]));
    at("picture").hidden = !row.picture;
    if (row.picture) { at("picture").src = row.picture; at("picture").alt = `picture of row ${row.name}`; }
    at("text").hidden = row.text === undefined;
    at("text").textContent = row.text || "";
    for (const button of document.querySelectorAll("[data-decision]"))
      button.classList.toggle("chosen", Boolean(decided) && button.dataset.decision === decided[0]);
    for (const button of document.querySelectorAll("[data-class]"))
      button.classList.toggle("chosen", Boolean(decided) && Number(button.dataset.class) === decided[1]);
    at("back").disabled = state.place === 0;
    at("forward").disabled = state.place === rows.length - 1;
    at("undo").disabled = !state.past.length;
    at("note").value = state.notes[state.place] || "";
    at("next").textContent = "";
    if (at("find").open) find();
  }

  function offerClasses() {
    at("named").replaceChildren(...classes.map((one) => { const made = document.createElement("option"); made.value = one.text; return made; }));
    if (!byKey.size) return;
    classes.forEach((one, i) => {
      const button = element("button", one.text);
      button.type = "button";
      button.dataset.class = i;
      button.append(element("kbd", one.key.toUpperCase()));
      button.addEventListener("click", () => choose(i));
      at("classes").append(button);
    });
    at("classes").hidden = false;
    at("other").hidden = true;
  }

  function onKey(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") { event.preventDefault(); return save(); }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (["INPUT", "SELECT"].includes(event.target.tagName)) { if (event.key === "Escape") event.target.blur(); return; }
    const key = event.key.toLowerCase();
    if (key.length === 1 && event.repeat) return event.preventDefault();  // a key that is held down decides one row
    if (key in LETTERS) decide(LETTERS[key]);
    else if (key === "u" || key === "backspace") undo();
    else if (key === "arrowleft") move(-1);
    else if (key === "arrowright") move(1);
    else if (key === "o" && !at("other").hidden) at("name").focus();
    else if (key === "n") at("note").focus();
    else if (key === "f") { at("find").open = true; at("search").focus(); }
    else if (byKey.has(key)) choose(byKey.get(key));
    else if (key.length === 1 && key !== " ") say(`The key ${event.key} does nothing here. ${byKey.size ? "Each button shows its key." : "Type O, then the name of a class."}`);
    else return;
    event.preventDefault();
  }

  at("progress").max = rows.length;
  load();
  if (!(state.place < rows.length)) state.place = 0;
  offerClasses();
  for (const button of document.querySelectorAll("[data-decision]"))
    button.addEventListener("click", () => decide(button.dataset.decision));
  at("other").addEventListener("submit", (event) => {
    event.preventDefault();
    const found = classes.findIndex((one) => one.text === at("name").value);
    if (found < 0) return say("No class has this name. Choose one of the list.");
    at("name").value = "";
    choose(found);
  });
  at("note").addEventListener("input", () => {
    state.notes[state.place] = at("note").value;
    store("");
  });
  classes.forEach((one, i) => { const made = element("option", one.text); made.value = i; at("of").append(made); });
  for (const id of ["which", "of", "search"]) at(id).addEventListener("input", find);
  at("find").addEventListener("toggle", () => { if (at("find").open) find(); });
  at("undo").addEventListener("click", undo);
  at("back").addEventListener("click", () => move(-1));
  at("forward").addEventListener("click", () => move(1));
  at("save").addEventListener("click", save);
  document.addEventListener("keydown", onKey);
  show();
})();
