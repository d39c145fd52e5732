"use strict";
// One page, two places to keep ratings: a server, or (offline) this browser and a file.
// Whatever comes from a corpus or a person is put in as text, never as HTML.

const $ = (id) => document.getElementById(id);
const RETRY = 2000; // milliseconds
const PAUSE = 50; // texts after which a break is proposed

class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The answers that a server keeps. The token is in the address of the page.
class Server {
  constructor() {
    this.token = location.pathname.split("/").pop();
    this.password = sessionStorage.getItem("password") || "";
    this.goingOn = "You can stop at any time: every rating is saved at once. Open the same link to go on where you stopped.";
    this.farewell = "Everything is saved. You can close this page.";
  }

  async call(path, body) {
    const headers = { Authorization: `Bearer ${this.token}` };
    if (this.password) headers["X-Password"] = encodeURIComponent(this.password);
    if (body) headers["Content-Type"] = "application/json";
    const answer = await fetch(path, {
      method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), cache: "no-store", credentials: "omit",
    });
    const content = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Failure(answer.status, content.error || `The server answered ${answer.status}.`);
    return content;
  }

  unlock(password) {
    this.password = password;
    sessionStorage.setItem("password", password);
  }

  state() { return this.call("/api/state"); }
  item(place) { return this.call(`/api/items/${place}`); }
  answer(given) { return this.call("/api/answers", given); }
}

// The answers that this browser keeps, and a file takes along.
class Offline {
  constructor(survey) {
    this.survey = survey;
    this.key = `augless ${survey.survey} ${survey.annotator}`;
    this.answers = [];
    this.keeps = true;
    this.saved = true;
    this.goingOn = "You can stop at any time: open this file in the same browser to go on. When you are done, press “Save my ratings” and send the file back.";
    this.farewell = "Now press “Save my ratings”, and send the file to the person who asked you.";
    try {
      this.take(JSON.parse(localStorage.getItem(this.key) || "[]"));
    } catch {
      this.keeps = false;
    }
    addEventListener("beforeunload", (event) => {
      if (!this.saved && !this.keeps) event.preventDefault();
    });
  }

  // Take answers that were kept or saved, if they are of the right form.
  take(answers) {
    const { tasks, scales } = this.survey;
    const fine = Array.isArray(answers) && answers.length <= tasks.length && answers.every((one, place) =>
      one && one.place === place && typeof one.seconds === "number" && Array.isArray(one.scores)
      && one.scores.length === scales.length && one.scores.every((score) => [1, 2, 3, 4, 5].includes(score)));
    if (fine) this.answers = answers.map(({ place, scores, seconds }) => ({ place, scores, seconds }));
    return fine;
  }

  shown(place) {
    const task = this.survey.tasks[place];
    if (!task) return null;
    const answer = this.answers[place];
    return {
      place, source: this.survey.sources[task[0]], text: task[1],
      scores: answer ? answer.scores : null, revision: answer ? 1 : 0,
    };
  }

  async state() {
    const { title, name, labels, languages, scales, anchors, instructions, tasks } = this.survey;
    const done = this.answers.length;
    return { title, name, labels, languages, scales, anchors, instructions, total: tasks.length, done, item: this.shown(done) };
  }

  async item(place) { return { done: this.answers.length, item: this.shown(place) }; }

  async answer({ place, scores, seconds }) {
    this.answers[place] = { place, scores, seconds };
    this.saved = false;
    try {
      localStorage.setItem(this.key, JSON.stringify(this.answers));
    } catch {
      this.keeps = false;
    }
    return { done: this.answers.length, item: this.shown(place + 1) };
  }

  file() {
    const { survey, annotator } = this.survey;
    return JSON.stringify({ format: "augless ratings 1", survey, annotator, answers: this.answers });
  }
}

class Page {
  constructor(backend) {
    this.backend = backend;
    this.item = null;
    this.scores = [];
    this.active = 0;
    this.busy = false;
    this.session = [];
    this.clock = { since: null, spent: 0 };
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("visibilitychange", () => this.tick(!document.hidden));
    $("rate").addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    $("undo").addEventListener("click", () => this.undo());
    $("back").addEventListener("click", () => this.go(this.done - 1));
    $("start").addEventListener("click", () => this.go(this.done));
    $("help-open").addEventListener("click", () => this.help());
    $("help-close").addEventListener("click", () => $("help").close());
    $("unlock").addEventListener("submit", (event) => {
      event.preventDefault();
      backend.unlock($("password").value);
      this.open();
    });
    if (backend instanceof Offline) this.offline();
  }

  offline() {
    $("save").hidden = false;
    $("load-row").hidden = false;
    $("save-last").hidden = false;
    for (const id of ["save", "save-last"]) $(id).addEventListener("click", () => this.save());
    $("load").addEventListener("change", async () => {
      const file = $("load").files[0];
      if (!file) return;
      let content = {};
      try { content = JSON.parse(await file.text()) || {}; } catch { /* not of the right form, as others */ }
      const { survey, annotator } = this.backend.survey;
      if (content.survey !== survey || content.annotator !== annotator || !this.backend.take(content.answers)) {
        this.complain("That file holds no ratings of yours for this page.");
        return;
      }
      this.complain("");
      this.open();
    });
  }

  save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([this.backend.file()], { type: "application/json" }));
    link.download = `ratings-${this.backend.survey.annotator}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    this.backend.saved = true;
    this.say("Saved as a file. Send it to the person who asked you.");
  }

  async open() {
    let state;
    try {
      state = await this.backend.state();
    } catch (error) {
      $("loading").hidden = true;
      if (error.status === 401 && $("locked").hidden) return this.show("locked", $("password"));
      if (error.status) {
        this.complain(error.message);
      } else {
        this.complain("The server cannot be reached. Trying again…");
        setTimeout(() => this.open(), RETRY);
      }
      return undefined;
    }
    this.complain("");
    if (this.backend.keeps === false) this.complain("This browser keeps nothing for a page like this one. Save your ratings before you close it.");
    this.state = state;
    this.done = state.done;
    this.dress();
    this.progress();
    if (state.done >= state.total) return this.finish();
    if (state.done > 0) return this.present(state.item);
    return this.show("welcome", $("welcome"));
  }

  // Put in what is the same for all texts.
  dress() {
    const { title, name, labels, languages, scales, anchors, instructions, total } = this.state;
    document.title = title;
    $("title").textContent = title;
    $("welcome-title").textContent = `Thank you for rating, ${name}`;
    $("source-label").textContent = labels[0];
    $("text-label").textContent = labels[1];
    if (languages[0]) $("source").lang = languages[0];
    if (languages[1]) $("text").lang = languages[1];
    $("scales").replaceChildren(...scales.map((scale, number) => this.question(scale, number, anchors)));
    for (const place of document.querySelectorAll(".told")) {
      const told = $("instructions").content.cloneNode(true);
      told.querySelector(".total").textContent = total.toLocaleString("en");
      told.querySelector(".label").textContent = labels[0];
      told.querySelector(".questions").replaceChildren(...scales.map(({ name: term, question }) => pair(term, question)));
      told.querySelector(".scale").replaceChildren(...anchors.flatMap((anchor, k) => (anchor ? [pair(k + 1, anchor)] : [])));
      told.querySelector(".going-on").textContent = this.backend.goingOn;
      place.replaceChildren(told);
      for (const paragraph of instructions.split(/\n\s*\n/).filter((one) => one.trim()).reverse()) {
        const p = document.createElement("p");
        p.dir = "auto";
        p.textContent = paragraph;
        place.prepend(p);
      }
    }
  }

  question({ name, question }, number, anchors) {
    const set = $("scale").content.cloneNode(true).firstElementChild;
    set.querySelector("b").textContent = name;
    set.querySelector("legend span").textContent = question;
    anchors.forEach((anchor, k) => {
      const label = $("point").content.cloneNode(true).firstElementChild;
      const input = label.querySelector("input");
      input.name = `scale-${number}`;
      input.value = k + 1;
      input.setAttribute("aria-label", anchor ? `${k + 1}, ${anchor}` : `${k + 1}`);
      input.addEventListener("change", () => this.rate(number, k + 1));
      input.addEventListener("focus", () => this.activate(number));
      label.querySelector("span").textContent = k + 1;
      set.querySelector(".points").append(label);
      if (anchor) {
        const caption = document.createElement("span");
        caption.textContent = anchor;
        set.querySelector(".anchors").append(caption);
      }
    });
    return set;
  }

  show(id, focused) {
    for (const one of ["loading", "locked", "welcome", "rate", "finished"]) $(one).hidden = one !== id;
    $("progress-row").hidden = id === "locked";
    this.tick(id === "rate");
    scrollTo(0, 0);
    if (focused) focused.focus({ preventScroll: true });
  }

  progress() {
    const { total } = this.state;
    $("progress").max = total;
    $("progress").value = this.done;
    const left = total - this.done;
    let text = `${this.done.toLocaleString("en")} of ${total.toLocaleString("en")}`;
    if (this.session.length >= 5 && left > 0) {
      const middle = [...this.session].sort((a, b) => a - b)[this.session.length >> 1];
      const minutes = Math.ceil((middle * left) / 60);
      text += minutes < 90 ? ` · about ${minutes} min left` : ` · about ${Math.round(minutes / 60)} hours left`;
    }
    $("count").textContent = text;
    $("progress").textContent = text;
  }

  async go(place) {
    if (this.busy || place < 0) return;
    await this.send(() => this.backend.item(place), ({ item, done }) => {
      this.done = done;
      this.present(item);
    });
  }

  present(item) {
    if (!item) return this.finish();
    this.item = item;
    this.scores = item.scores ? [...item.scores] : this.state.scales.map(() => 0);
    for (const [id, text] of [["source", item.source], ["text", item.text]]) {
      const nothing = !text.trim();
      $(id).textContent = nothing ? "(nothing)" : text;
      $(id).classList.toggle("nothing", nothing);
      $(id).scrollTop = 0;
    }
    $("item-title").textContent = `${this.state.labels[1]} ${item.place + 1} of ${this.state.total}`;
    this.clock = { since: null, spent: 0 };
    this.show("rate", $("item"));
    for (const id of ["source", "text"]) { // what scrolls must be reachable by keyboard
      if ($(id).scrollHeight > $(id).clientHeight) $(id).tabIndex = 0; else $(id).removeAttribute("tabindex");
    }
    this.active = 0; // of a text that was rated before, too: keys rate it again
    this.progress();
    this.paint();
    return undefined;
  }

  finish() {
    this.item = null;
    this.progress();
    $("finished-text").textContent = this.backend.farewell;
    this.show("finished", $("finished"));
    return undefined;
  }

  // Show which ratings are given, and which question the next key answers.
  paint() {
    [...$("scales").children].forEach((set, number) => {
      set.classList.toggle("active", number === this.active);
      for (const input of set.querySelectorAll("input")) input.checked = Number(input.value) === this.scores[number];
    });
    const whole = this.scores.every(Boolean);
    $("next").setAttribute("aria-disabled", String(!whole || this.busy));
    $("undo").setAttribute("aria-disabled", String(this.item.place === 0 && !this.scores.some(Boolean)));
    const asked = this.state.scales[this.active];
    const keys = [asked && `1 to 5: ${asked.name}`, whole && "Enter: next"];
    $("hint").textContent = keys.filter(Boolean).join(" · ");
  }

  activate(number) {
    this.active = number;
    this.paint();
  }

  rate(number, point) {
    if (this.busy || !this.item) return;
    this.scores[number] = point;
    const open = this.scores.indexOf(0);
    this.active = open < 0 ? number + 1 : open;
    this.paint();
    const anchor = this.state.anchors[point - 1];
    const words = [`${this.state.scales[number].name} ${point}`, anchor, open < 0 && "Enter goes on"];
    this.say(words.filter(Boolean).join(", "));
  }

  undo() {
    if (this.busy || !this.item) return;
    let last = this.scores.length - 1;
    while (last >= 0 && !this.scores[last]) last -= 1;
    // A text that was rated before is not taken apart: one goes on back.
    if (last >= 0 && !this.item.scores) {
      this.scores[last] = 0;
      this.activate(this.scores.indexOf(0));
      this.say(`${this.state.scales[last].name} taken back`);
    } else if (this.item.place > 0) {
      this.go(this.item.place - 1);
    }
  }

  async submit() {
    if (this.busy || !this.item) return;
    if (!this.scores.every(Boolean)) {
      this.activate(this.scores.indexOf(0));
      this.say(`Not rated yet: ${this.state.scales[this.active].name}`);
      return;
    }
    this.tick(false);
    const { place, revision, scores } = this.item;
    const seconds = Math.min(Math.round(this.clock.spent / 10) / 100, 86400);
    const same = scores && scores.every((score, k) => score === this.scores[k]);
    if (same) {
      await this.go(place + 1);
      return;
    }
    const given = { place, revision: revision + 1, scores: [...this.scores], seconds };
    await this.send(() => this.backend.answer(given), ({ item, done }) => {
      this.done = done;
      this.session.push(seconds);
      this.present(item);
      if (this.session.length % PAUSE === 0) this.say(`${this.session.length} rated. A short break keeps ratings steady.`);
      else if (item) this.say(`${item.place + 1} of ${this.state.total}`);
    });
  }

  // Do something that may have to be tried again; nothing is shown as saved before it is.
  async send(work, then) {
    this.busy = true;
    if (this.item) this.paint();
    for (;;) {
      try {
        const answer = await work();
        this.busy = false;
        this.complain("");
        then(answer);
        return;
      } catch (error) {
        if (error.status && error.status < 500 && error.status !== 408 && error.status !== 429) {
          this.busy = false;
          if (error.status === 409) {
            await this.open();
            this.complain("This text was rated in another window. Here is where you are.");
          } else {
            this.complain(error.message);
            if (this.item) this.paint();
          }
          return;
        }
        this.complain("Not saved yet: the server does not answer. Trying again…");
        await new Promise((resolve) => setTimeout(resolve, RETRY));
      }
    }
  }

  key(event) {
    if (!event.key) return; // as of a field that the browser fills in
    if (event.key === "?" && event.target.type !== "password") {
      event.preventDefault();
      this.help();
      return;
    }
    if ($("help").open || event.target.type === "password" || event.target.type === "file") return;
    const undo = event.key === "Backspace" || event.key.toLowerCase() === "u"
      || ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z");
    if (!undo && (event.ctrlKey || event.metaKey || event.altKey)) return;
    if (!$("finished").hidden) {
      if (undo) { event.preventDefault(); this.go(this.done - 1); }
      return;
    }
    const pressed = event.target.closest && event.target.closest("button");
    if (!$("welcome").hidden) {
      if (event.key === "Enter" && !pressed) { event.preventDefault(); this.go(this.done); }
      return;
    }
    if ($("rate").hidden) return;
    const digit = point(event);
    if (digit) {
      event.preventDefault();
      if (this.active < this.scores.length) this.rate(this.active, digit);
      else this.say("All questions are answered. Enter goes on, Backspace takes back.");
    } else if (event.key === "Enter" && !pressed) {
      event.preventDefault();
      if (!event.repeat) this.submit();
    } else if (undo) {
      event.preventDefault();
      this.undo();
    }
  }

  help() {
    if ($("help").open) {
      $("help").close();
    } else {
      $("help").showModal();
      $("help-title").focus(); // not the button at its end, to which a small screen would scroll
    }
  }

  // Count the time that a text is in sight.
  tick(running) {
    const now = performance.now();
    if (this.clock.since !== null) this.clock.spent += now - this.clock.since;
    this.clock.since = running && !$("rate").hidden ? now : null;
  }

  say(text) { $("status").textContent = text; }

  complain(text) {
    $("problem").textContent = text;
    $("problem").hidden = !text;
  }
}

function pair(term, meaning) {
  const row = document.createElement("div");
  const dt = document.createElement("dt");
  const dd = document.createElement("dd");
  dt.textContent = term;
  dd.textContent = ` ${meaning}`;
  row.append(dt, dd);
  return row;
}

// The digit of a key, on keyboards too where digits need Shift or are written otherwise.
function point(event) {
  if (/^[1-5]$/.test(event.key)) return Number(event.key);
  const place = /^(?:Digit|Numpad)([1-5])$/.exec(event.code);
  return place && !event.shiftKey && !/^[0-9]$/.test(event.key) ? Number(place[1]) : 0;
}

const embedded = $("survey");
new Page(embedded ? new Offline(JSON.parse(embedded.textContent)) : new Server()).open();
