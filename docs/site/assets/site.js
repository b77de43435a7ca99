// What a page does beyond being read: search, light or dark, the menu of a phone, buttons that copy. It works without a
// server; the index of the search is a script that is loaded when somebody begins to search.
"use strict";
(() => {
	const root = document.currentScript.dataset.root;
	const html = document.documentElement;
	const at = id => document.getElementById(id);
	html.classList.add("script");

	// Light or dark, as the system has it or as the reader chose.
	const remembered = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const show = theme => {
		if (!theme) return;
		html.dataset.theme = theme;
		for (const source of document.querySelectorAll("picture source")) source.media = theme === "dark" ? "all" : "not all";
	};
	show(remembered);
	at("site-theme").hidden = false;
	at("site-theme").onclick = () => {
		const now = html.dataset.theme || (dark.matches ? "dark" : "light");
		show(now === "dark" ? "light" : "dark");
		try { localStorage.setItem("theme", html.dataset.theme); } catch { /* it lasts as long as the page */ }
	};

	// The menu of a phone.
	const menu = at("site-menu"), nav = at("site-nav");
	const open = is => {
		nav.classList.toggle("open", is);
		menu.setAttribute("aria-expanded", is);
		document.body.style.overflow = is ? "hidden" : "";
	};
	menu.onclick = event => { event.preventDefault(); open(!nav.classList.contains("open")); };
	const here = nav.querySelector("[aria-current]");
	if (here && here.offsetTop > nav.clientHeight - 80) nav.scrollTop = here.offsetTop - nav.clientHeight / 2;

	// Copying: of a session only what is typed.
	for (const block of document.querySelectorAll(".code")) {
		const button = document.createElement("button");
		button.className = "copy";
		button.type = "button";
		button.textContent = "Copy";
		button.onclick = async () => {
			const typed = [...block.querySelectorAll(".typed")].map(e => e.textContent).join("");
			await copy(typed || block.querySelector("code").textContent);
			button.textContent = "Copied";
			button.classList.add("done");
			setTimeout(() => { button.textContent = "Copy"; button.classList.remove("done"); }, 1500);
		};
		block.append(button);
	}
	const copy = async text => {
		if (navigator.clipboard) try { return await navigator.clipboard.writeText(text); } catch { /* the old way */ }
		const area = document.createElement("textarea");
		area.value = text;
		document.body.append(area);
		area.select();
		document.execCommand("copy");
		area.remove();
	};

	// The heading that is being read.
	const marks = new Map([...document.querySelectorAll(".toc a")].map(a => [decodeURIComponent(a.hash.slice(1)), a]));
	const headings = [...marks.keys()].map(at).filter(e => e);
	const mark = () => {
		let now = headings[0];
		for (const heading of headings) if (heading.getBoundingClientRect().top < 120) now = heading;
		for (const [id, a] of marks) a.classList.toggle("now", now && id === now.id);
	};
	if (headings.length) { mark(); addEventListener("scroll", mark, {passive: true}); }

	// Search.
	const query = at("site-query"), results = at("site-results");
	let index = null, chosen = -1;
	query.parentElement.hidden = false;
	window.found = all => {
		index = all.map(e => ({...e, low: e.t.toLowerCase(), page: e.p.toLowerCase(), title: e.h.toLowerCase(), words: (e.w || "").split(" ")}));
		search();
	};
	const load = () => {
		if (load.done) return;
		load.done = true;
		const script = document.createElement("script");
		script.src = root + "search-index.js";
		document.head.append(script);
	};
	// A section is found if it has so many of the words. A word in a title counts more than one in the text, and a
	// title with several of them counts most: that of an error which was pasted.
	const score = (e, words, least) => {
		let sum = 0, missing = 0, titled = 0;
		for (const word of words) {
			// A word of other programs for what a section has, also while it is typed.
			const called = word.length > 2 && e.words.some(w => w.startsWith(word));
			const inTitle = e.title.includes(word), inPage = e.page.includes(word), inText = e.low.includes(word);
			if (!called && !inTitle && !inPage && !inText) {
				if (++missing > words.length - least) return 0;
				continue;
			}
			titled += inTitle;
			sum += (called ? 12 : 0) + (inTitle ? 12 : 0) + (inPage ? (e.h ? 3 : 14) : 0) + (inText ? 1 + Math.min(3, e.low.split(word).length / 3) : 0);
			if (called || e.title === word || !e.h && (e.page === word || e.page === "limitctl " + word)) sum += 30;
		}
		const aside = /^(repository|design|peers|probed)\//.test(e.u) ? 0.5 : 1; // what a user seldom wants
		return aside * (sum + (titled > 2 ? 6 * titled * titled : 0)) * (1 - missing / words.length) ** 2;
	};
	const marked = (text, words) => {
		const part = document.createElement("span");
		const places = words.map(word => text.toLowerCase().indexOf(word)).filter(n => n >= 0);
		const from = Math.max(0, (places.length ? Math.min(...places) : 0) - 50);
		const shown = (from ? "…" : "") + text.slice(from, from + 170) + (text.length > from + 170 ? "…" : "");
		const pattern = new RegExp("(" + words.map(w => w.replace(/[\\^$.*+?()[\]{}|\/]/g, "\\$&")).join("|") + ")", "iu");
		for (const piece of shown.split(pattern)) {
			if (pattern.test(piece)) {
				const m = document.createElement("mark");
				m.textContent = piece;
				part.append(m);
			} else part.append(piece);
		}
		return part;
	};
	const search = () => {
		// Without the quotes and stops of a pasted message.
		const words = query.value.toLowerCase().split(/\s+/).map(w => w.replace(/^["'(✗✓]+|["'),.:;]+$/g, ""))
			.filter((w, _, all) => w && (w !== "limitctl" || all.length === 1));
		results.replaceChildren();
		chosen = -1;
		const any = words.length > 0 && index !== null;
		results.hidden = !any;
		query.setAttribute("aria-expanded", any);
		if (!any) return;
		// A pasted message has values that no page has, so half of many words are enough.
		const least = words.length > 2 ? Math.max(2, Math.ceil(words.length / 2)) : words.length;
		const hits = index.map(e => [score(e, words, least), e]).filter(([n]) => n > 0).sort(([a], [b]) => b - a).slice(0, 12);
		for (const [, e] of hits) {
			const a = document.createElement("a");
			a.href = root + e.u;
			a.role = "option";
			const title = document.createElement("b"), where = document.createElement("small");
			title.textContent = e.h || e.p;
			where.textContent = e.h ? " " + e.p : " " + e.g;
			title.append(where);
			a.append(title, marked(e.t, words));
			results.append(a);
		}
		if (!hits.length) {
			const none = document.createElement("p");
			none.textContent = "Nothing has these words.";
			results.append(none);
		}
	};
	const choose = step => {
		const all = [...results.querySelectorAll("a")];
		if (!all.length) return;
		chosen = (chosen + step + all.length) % all.length;
		all.forEach((a, i) => a.setAttribute("aria-selected", i === chosen));
		all[chosen].scrollIntoView({block: "nearest"});
	};
	query.onfocus = () => { load(); search(); };
	query.oninput = search;
	query.onkeydown = event => {
		if (event.key === "ArrowDown") { event.preventDefault(); choose(1); }
		else if (event.key === "ArrowUp") { event.preventDefault(); choose(-1); }
		else if (event.key === "Enter") (results.querySelectorAll("a")[Math.max(0, chosen)] || query).click();
		else if (event.key === "Escape") { query.value = ""; search(); query.blur(); }
	};
	results.onclick = () => { results.hidden = true; };
	addEventListener("click", event => { if (!event.target.closest(".search")) results.hidden = true; });
	addEventListener("keydown", event => {
		if (event.key === "/" && !event.target.closest("input, textarea") && !event.ctrlKey && !event.metaKey) { event.preventDefault(); query.focus(); }
		if (event.key === "Escape") open(false);
	});
})();
