"use strict";
// All texts of the store are put in as text, never as markup. The token is kept until the tab is closed.
const nearShare = 0.8; // as admin.NearShare: this page is a fixed file, so it does not get the value
const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem("limitctl-token") || "";
let heard = 0;

function make(tag, className, text) {
	const e = document.createElement(tag);
	if (className) e.className = className;
	if (text !== undefined) e.textContent = text;
	return e;
}

// Invisible characters and those that turn the direction of a text are shown by their numbers, so that no name looks like
// another.
function visible(text) {
	return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

function number(n) {
	if (n >= 10 || Number.isInteger(n)) return Math.round(n).toLocaleString("en");
	return n >= 1 ? n.toFixed(1) : n >= 0.01 ? n.toFixed(2) : "<0.01";
}

function time(ms) {
	const s = Math.ceil(ms / 1000);
	if (s < 120) return s + "s";
	if (s < 7200) return Math.round(s / 60) + "m";
	return s < 172800 ? Math.round(s / 3600) + "h" : Math.round(s / 86400) + "d";
}

function complain(text) {
	$("problem").textContent = visible(text);
	$("problem").hidden = !text;
}

async function ask(path, signal) {
	const headers = token ? {"X-Limitctl-Authorization": "Bearer " + token} : {};
	const answer = await fetch(path, {headers, signal, cache: "no-store"});
	if (answer.ok) return answer;
	let text = "the server answered " + answer.status;
	try { text = (await answer.json()).error.message; } catch { /* it was not limitctl that answered */ }
	const problem = new Error(text);
	problem.status = answer.status;
	throw problem;
}

function login(problem) {
	$("login").hidden = false;
	$("main").hidden = true;
	$("state").textContent = "";
	complain(token ? problem : "");
	$("token").focus();
}

let overrides = null;

async function follow() {
	const leave = new AbortController();
	const watch = setInterval(() => {
		if (Date.now() - heard > 40000) leave.abort();
	}, 5000);
	heard = Date.now();
	try {
		const answer = await ask("api/live", leave.signal);
		$("login").hidden = true;
		$("main").hidden = false;
		const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
		let rest = "";
		for (;;) {
			const {value, done} = await reader.read();
			if (done) break;
			heard = Date.now();
			rest += value;
			const events = rest.split("\n\n");
			rest = events.pop();
			let latest = null;
			for (const e of events) {
				if (!e.startsWith("data: ")) continue;
				latest = JSON.parse(e.slice(6));
				if (latest.overrides !== undefined) overrides = latest.overrides; // else they are as before
			}
			if (latest) show(latest);
		}
		throw new Error("the server has ended the connection");
	} catch (problem) {
		if (problem.status === 401) return login(problem.message);
		$("state").textContent = "not connected; what is shown may be old";
		complain(problem.name === "AbortError" || problem instanceof TypeError ? "the server does not answer" : problem.message);
	} finally {
		clearInterval(watch);
	}
	setTimeout(follow, 2000 + Math.random() * 2000);
}

function show(d) {
	complain(d.problem ? "the store does not answer for " + time(d.answered_ago_ms) + ": " + d.problem : "");
	$("store").textContent = visible(d.store) + (d.masked ? ", subjects are masked" : "");
	$("state").textContent = new Date(d.at).toLocaleTimeString();
	const atLeast = d.at_least ? "≥" : "";
	$("denied").textContent = d.denied_per_second === null ? "-" : atLeast + number(d.denied_per_second);
	$("blocked").textContent = d.blocked_per_second === null ? "-" : number(d.blocked_per_second);
	$("at-limit").textContent = (d.whole ? "" : "≥") + number(d.at_limit);
	$("keys").textContent = (d.whole ? "" : "≥") + number(d.keys);
	const denied = d.rows.filter((r) => r.denied_per_second > 0);
	list($("top"), denied.slice(0, 50), row, d.denied_per_second === null ? "It is not known who is denied." : "Nobody is denied.");
	list($("near"), d.rows.filter((r) => !(r.denied_per_second > 0)).slice(0, 50), row, "No keys are in use.");
	const inForce = (overrides || []).map((o) => ({...o, ...d.effects[o.id]}));
	list($("overrides"), inForce, override(d.at), overrides ? "No overrides are in force." : "The overrides could not be read.");
}

function list(place, items, one, none) {
	const focused = document.activeElement && place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
	place.replaceChildren(...(items.length ? items.map(one) : [make("p", "faint", none)]));
	if (focused) for (const e of place.querySelectorAll("button")) if (e.dataset.key === focused) e.focus();
}

function row(r) {
	const e = make("div", "row"), first = make("div"), second = make("div", "faint");
	const name = make("button", "name", visible(r.subject));
	name.type = "button";
	name.dataset.key = r.subject + "\n" + r.limit_name;
	name.addEventListener("click", () => search(r.subject));
	first.append(name);
	if (r.denied_per_second > 0) {
		first.append(make("span", "number end", number(r.denied_per_second) + "/s denied"));
	}
	if (r.limit) {
		const style = r.at_limit ? "number end" : r.share >= nearShare ? "number near" : "number";
		first.append(make("span", style, Math.floor(r.share * 100) + "%"), meter(r.share));
	}
	const words = [visible(r.limit_name)];
	if (r.limit) words.push(r.used.toLocaleString("en") + " used of " + r.limit);
	if (r.blocked) words.push("blocked");
	else if (r.effect) words.push("override " + r.effect);
	if (r.at_limit && r.retry_after_ms > 0) words.push("retry in " + time(r.retry_after_ms));
	if (r.stale) words.push("its server does not answer");
	second.append(make("span", "text", words.join(" · ")));
	e.append(first, second);
	return e;
}

function meter(share) {
	const m = make("meter");
	m.max = 1;
	m.high = nearShare;
	m.optimum = 0;
	m.value = Math.min(1, share);
	m.setAttribute("aria-hidden", "true");
	return m;
}

const override = (now) => (o) => {
	const e = make("div", "row"), first = make("div"), second = make("div", "faint");
	first.append(make("span", "name", visible(o.whom)), make("span", o.block ? "end" : "text", o.effect),
		make("span", "number", time(Date.parse(o.ends_at) - Date.parse(now)) + " left"));
	const words = [o.limits ? "limits " + visible(o.limits) : "all limits"];
	if (o.let_through_per_second) words.push("lets through " + number(o.let_through_per_second) + "/s");
	if (o.denied_per_second) words.push("denies " + number(o.denied_per_second) + "/s");
	if (o.decides_for) words.push("decides for " + o.decides_for.map(visible).join(", "));
	if (o.by) words.push("by " + visible(o.by));
	if (o.reason) words.push(visible(o.reason));
	words.push(o.id);
	second.append(make("span", "text", words.join(" · ")));
	e.append(first, second);
	return e;
};

let asked = "", timer = 0;

async function search(subject) {
	asked = subject;
	$("subject").value = subject;
	await refresh(true);
}

async function refresh(first) {
	clearTimeout(timer);
	const subject = asked;
	if (!subject) return;
	try {
		const answer = await ask("api/subject?subject=" + encodeURIComponent(subject));
		const d = await answer.json();
		if (subject !== asked) return;
		found(d);
		if (first) $("found").scrollIntoView({block: "nearest"});
	} catch (problem) {
		if (subject !== asked) return;
		if (problem.status === 401) return login(problem.message);
		if (first) $("found-limits").replaceChildren();
		if (first) $("found-overrides").replaceChildren();
		$("found-subject").textContent = visible(subject);
		$("found-note").textContent = problem instanceof TypeError ? "the server does not answer" : visible(problem.message);
	}
	$("found").hidden = false;
	timer = setTimeout(refresh, 5000, false);
}

function found(d) {
	$("found-subject").textContent = visible(d.subject);
	const notes = [];
	if (!d.limits.length) notes.push("Nothing is used or denied under this subject; it has to be written as the service does.");
	if (!d.whole) notes.push("Not all keys are followed, so only limits with known names were looked for.");
	if (d.overrides_problem) notes.push("Overrides could not be read, so blocks may be missing: " + visible(d.overrides_problem));
	if (d.denials_problem) notes.push("Denials could not be read: " + visible(d.denials_problem));
	$("found-note").textContent = notes.join(" ");
	$("found-limits").replaceChildren(...d.limits.map((l) => limit(l, d.denials_at_least)));
	list($("found-overrides"), d.overrides, override(d.at), "No override is about it.");
}

function limit(l, atLeast) {
	const e = make("div", "row"), first = make("div"), second = make("div");
	first.append(make("span", "name", visible(l.name)), make("span", "faint", l.limit));
	if (l.limit) first.append(meter(l.share));
	second.append(make("span", l.allowed ? "text" : "text end", l.sentence));
	e.append(first, second);
	const denied = l.denied;
	if (!denied) return e;
	const words = [];
	if (denied.count === 0) words.push("not denied in the last hour");
	else {
		const minutes = denied.per_minute, most = Math.max(...minutes);
		words.push("denied " + (atLeast ? "≥" : "") + number(denied.count) + " times in the last hour, up to " + number(most) + " a minute");
		if (denied.blocked > 0) words.push(number(denied.blocked) + " of them by an override");
		if (denied.since) words.push("since " + new Date(denied.since).toLocaleTimeString());
	}
	e.append(make("div", "faint", words.join(" · ")));
	if (denied.count > 0) e.append(bars(denied.per_minute, Math.max(1, ...denied.per_minute)));
	return e;
}

function bars(values, most) {
	const space = "http://www.w3.org/2000/svg", height = 40, width = 10;
	const svg = document.createElementNS(space, "svg");
	const set = (e, attributes) => {
		for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
		return e;
	};
	set(svg, {class: "bars", viewBox: "0 0 " + values.length * width + " " + height, preserveAspectRatio: "none", role: "img",
		"aria-label": "denied in each minute of the last hour, now at the right"});
	values.forEach((value, i) => {
		const h = value > 0 ? Math.max(1, value / most * (height - 1)) : 0;
		svg.append(set(document.createElementNS(space, "rect"), {x: i * width + 1, y: height - h, width: width - 1, height: h}));
	});
	svg.append(set(document.createElementNS(space, "line"), {x1: 0, x2: values.length * width, y1: height, y2: height}));
	return svg;
}

$("login").addEventListener("submit", (e) => {
	e.preventDefault();
	token = $("token").value.trim();
	$("token").value = "";
	sessionStorage.setItem("limitctl-token", token);
	follow();
});
$("search").addEventListener("submit", (e) => {
	e.preventDefault();
	search($("subject").value);
});
$("close").addEventListener("click", () => {
	asked = "";
	clearTimeout(timer);
	$("found").hidden = true;
});
follow();
