"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.rows, classes = data.classes;
  const at = (id) => document.getElementById(id);
  const LETTERS = { k: "keep", s: "suggestion", d: "drop", x: "skip" };
  const byKey = new Map(classes.map((one, i) => [one.key, i]).filter(([key]) => key));
  // decisions: by the place of a row, [decision, class or null]; past: for each step, what undoing it brings back.
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

  // One decision on the rows at these places, which one step undoes. A label is given with the decision "other" only.
  function record(places, decision, label) {
    state.past.push(places.map((i) => [i, state.decisions[i] || null]));
    for (const i of places) {
      const { given, alternative } = rows[i];
      const means = decision !== "other" ? decision : label === given ? "keep" : label === alternative ? "suggestion" : "other";
      state.decisions[i] = [means, means === "keep" ? given : means === "suggestion" ? alternative : means === "other" ? label : null];
    }
  }

  function decide(decision, label) {
    const place = state.place, row = rows[place];
    record([place], decision, label);
    const next = open(place + 1);
    if (next >= 0) state.place = next;
    store(echo(row, state.decisions[place][1], decision));
    show();
    // What a screen reader has to say of the next row; all others see it.
    at("next").textContent = next >= 0 ? summary(next) : "";
  }

  function choose(label) { decide("other", label); }

  function decideMany(places, decision, label) {
    if (!places.length) return say("No row is marked.");
    record(places, decision, label);
    store(`${places.length} rows are decided. Undo takes all of them back.`);
    show();
  }

  // Spellings that the page asks about: each with the rows of that label without a decision.
  function asked() {
    return data.asked.map(([label, meant]) => [label, meant, [...rows.keys()].filter((i) => rows[i].given === label && !(i in state.decisions))])
      .filter(([, , places]) => places.length);
  }

  function join() {
    const [first] = asked();
    if (first) decideMany(first[2], "other", first[1]); else say("The page asks about no spelling.");
  }

  function undo() {
    const last = state.past.pop();
    if (!last) return say("Nothing to undo.");
    const steps = Array.isArray(last[0]) ? last : [last];  // pages of older versions undid one row a step
    for (const [i, before] of steps) if (before) state.decisions[i] = before; else delete state.decisions[i];
    const [place, before] = steps[0];
    state.place = place;
    const one = before ? echo(rows[place], before[1], before[0]) : `${data.named} ${rows[place].name} is open again.`;
    store(`Undone: ${steps.length > 1 ? `${steps.length} rows are as they were.` : one}`);
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
    at("all").checked = false;
    at("found").replaceChildren(...found.slice(0, MOST).map((i) => {
      const made = element("li", ""), mark = element("label", ""), box = element("input", ""), button = element("button", summary(i));
      Object.assign(box, { type: "checkbox", value: i, ariaLabel: `mark ${data.named} ${rows[i].name}` });
      mark.append(box);
      if (rows[i].picture) mark.append(picture(rows[i]));
      button.type = "button";
      button.addEventListener("click", () => { state.place = i; store(summary(i)); show(); });
      made.append(mark, button);
      return made;
    }));
  }

  function picture(row) {
    return Object.assign(document.createElement("img"), { src: row.picture, alt: `picture of row ${row.name}` });
  }

  // The rows that are most like the one that is shown, each with its label of now.
  function like() {
    const line = (tag, texts) => { const made = document.createElement("tr"); made.append(...texts.map((one) => one.src ? one : element(tag, one))); return made; };
    const large = data.rows[0].text === undefined ? [] : ["text"];
    at("like-head").replaceChildren(line("th", [data.named, "label", ...large, ...data.columns]));
    at("like-rows").replaceChildren(...(rows[state.place].near || []).map((i) => {
      const row = rows[i] || data.others[i - rows.length], [, now] = state.decisions[i] || [0, row.given];
      const made = line("td", [row.name, row.label ?? (now === null ? classes[row.given].text : classes[now].text), ...large.map((name) => row[name]), ...row.cells]);
      if (row.picture) made.firstChild.append(picture(row));
      return made;
    }));
  }

  // The shares of wrong labels that m random rows with w wrong ones leave open. A bet of all shares together (a beta
  // distribution with 1/2 and 1/2) against each share: one that it beats by 20 to 1 is excluded. So the range holds with
  // confidence 0.95 whenever a person stops.
  function range(w, m) {
    let log = 0;
    for (let i = 0; i < m; i++) log += Math.log(i < w ? i + 0.5 : i - w + 0.5) - Math.log(i + 1);
    const isOut = (p) => log - (w && w * Math.log(p)) - (m > w && (m - w) * Math.log(1 - p)) > Math.log(20);
    const end = (inside, out) => {
      for (let i = 0; i < 40; i++) { const half = (inside + out) / 2; if (isOut(half)) out = half; else inside = half; }
      return out;
    };
    return [w ? end(w / m, 0) : 0, w < m ? end(w / m, 1) : 1];
  }

  function soFar() {
    const settled = (i) => i in state.decisions && state.decisions[i][0] !== "skip";
    const isWrong = (i) => state.decisions[i][1] !== rows[i].given;  // changed, dropped or skipped
    const shownAs = rows.map((row) => row.csv[1].split(",")), draw = (i) => Number(shownAs[i][1]);
    const because = (why) => [...rows.keys()].filter((i) => shownAs[i][0].includes(why));  // of both reasons, for each
    const judged = because("suspect").filter(settled), drawn = because("random").sort((a, b) => draw(a) - draw(b));
    const gap = drawn.findIndex((i) => !(i in state.decisions)), counted = gap < 0 ? drawn : drawn.slice(0, gap);
    const m = counted.length, w = counted.filter(isWrong).length;
    const percent = (share) => `${(100 * share).toFixed(1)}%`, rough = (part, n) => part && part < n ? ` (roughly ${(100 * part / n).toFixed(0)}%)` : "";
    const of = (part, n) => `${part} of ${n}${n < 100 ? rough(part, n) : ` (${percent(part / n)})`}`;  // of few rows no decimals
    let said = `Suspects: ${of(judged.filter(isWrong).length, judged.length)} were wrong.`;
    if (m) {
      const [lower, upper] = range(w, m);
      const later = data.more.map((n) => `${range(Math.round((w * (m + n)) / m), m + n).map(percent).join(" to ")} after ${n}`);
      said += ` Rows drawn at random: ${of(w, m)} were wrong, dropped or skipped. With confidence 0.95, so were ${percent(lower)} to ${percent(upper)} of all labels that were open when this page was made, if rows are independent and decisions right. If further random rows show as many, this will be about ${later.join(", ")} more.`;
    }
    at("share").textContent = said;
  }

  function csv() {
    const places = Object.keys(state.decisions).map(Number);
    const last = places.reduce((most, i) => Math.max(most, i), -1);
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
    at("asked").replaceChildren(...asked().map(([label, meant, places]) => {
      const made = element("p", `Is ${classes[label].text} (${places.length} of the rows here) the class ${classes[meant].text}? `), button = element("button", "Join");
      button.type = "button";
      button.append(element("kbd", "J"));
      button.addEventListener("click", () => decideMany(places, "other", meant));
      made.append(button);
      return made;
    }));
    for (const [id, fill] of FILLED) if (at(id).open) fill();
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
    else if (key === "j") join();
    else if (key === "f") { at("find").open = true; at("search").focus(); }
    else if (byKey.has(key)) choose(byKey.get(key));
    else if (key.length === 1 && key !== " ") say(`The key ${event.key} does nothing here. ${byKey.size ? "Each button shows its key." : "Type O, then the name of a class."}`);
    else return;
    event.preventDefault();
  }

  const FILLED = [["find", find], ["like", like], ["so-far", soFar]];
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
  for (const [id, fill] of FILLED) at(id).addEventListener("toggle", () => { if (at(id).open) fill(); });
  const marks = () => [...document.querySelectorAll("#found input")];
  at("all").addEventListener("change", () => { for (const box of marks()) box.checked = at("all").checked; });
  classes.forEach((one, i) => { const made = element("option", `is ${one.text}`); made.value = i; at("bulk").append(made); });
  at("apply").addEventListener("click", () => {
    const places = marks().filter((box) => box.checked).map((box) => Number(box.value)), chosen = at("bulk").value;
    if (/^\d/.test(chosen)) decideMany(places, "other", Number(chosen)); else decideMany(places, chosen);
  });
  at("like").hidden = !rows.some((row) => row.near);
  at("undo").addEventListener("click", undo);
  at("back").addEventListener("click", () => move(-1));
  at("forward").addEventListener("click", () => move(1));
  at("save").addEventListener("click", save);
  document.addEventListener("keydown", onKey);
  show();
})();
