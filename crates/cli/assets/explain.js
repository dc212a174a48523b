(() => {
  const data = JSON.parse(document.getElementById("program").textContent);
  const PAGE = 50; // classes on a page
  const SHOWN = 5; // filters of a class before "more"
  const $ = (id) => document.getElementById(id);
  const el = (tag, text, cls) => {
    const x = document.createElement(tag);
    if (text !== undefined) x.textContent = text;
    if (cls) x.className = cls;
    return x;
  };
  const place = (o) => (o.line ? `${o.file}:${o.line}` : "");
  const all = data.classes;
  // what a search looks at
  all.forEach((c) => {
    c.text = [c.stage + "." + c.class, c.fate, c.to, c.nf, c.entry || "", c.action, ...c.filter,
      ...c.origin.map((o) => `${o.element} ${o.argument || ""} ${place(o)}`)].join(" ").toLowerCase();
  });
  [...new Set(all.map((c) => c.fate))].forEach((f) => $("fate").append(new Option(f, f)));

  const groupName = {
    fate: (c) => c.fate,
    entry: (c) => (c.entry ? `in at ${c.entry}` : `stage ${c.stage}: ${data.stages[c.stage].why}, at ${data.stages[c.stage].at}`),
    nf: (c) => c.nf || "(no function)",
    to: (c) => `${c.fate} ${c.to}`,
  };
  let page = 0, hits = all;

  const search = () => {
    const words = $("q").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const fate = $("fate").value, g = groupName[$("group").value];
    hits = all.filter((c) => (!fate || c.fate === fate) && words.every((w) => c.text.includes(w)));
    if (g) {
      // groups in order of first mention; what leaves comes first
      const rank = new Map();
      if ($("group").value === "fate") ["leaves", "goes on", "asks", "punted", "dropped"].forEach((f) => rank.set(f, rank.size));
      hits.forEach((c) => { const k = g(c); if (!rank.has(k)) rank.set(k, rank.size); });
      hits = hits.map((c) => [rank.get(g(c)), c]).sort((a, b) => a[0] - b[0]).map((x) => x[1]);
    }
    page = 0;
    show();
  };

  const light = (c) => {
    const on = new Set(c.path);
    document.querySelectorAll(".boxes > g").forEach((b) => b.classList.toggle("way", on.has(Number(b.dataset.i))));
    document.querySelectorAll(".edges > path").forEach((p) =>
      p.classList.toggle("on", on.has(Number(p.dataset.a)) && on.has(Number(p.dataset.b))));
    showElements(c.path);
    document.querySelector(".graph").scrollIntoView({ behavior: "smooth" });
  };

  const list = (box, items, make) => {
    items.slice(0, SHOWN).forEach((i) => box.append(make(i)));
    if (items.length > SHOWN) {
      const more = el("button", `${items.length - SHOWN} more`, "more");
      more.onclick = () => { more.remove(); items.slice(SHOWN).forEach((i) => box.append(make(i))); };
      box.append(more);
    }
  };

  const kinds = (o) => Object.entries(o).map(([k, n]) => `${k} ${n}`).join(", ") || "none";

  const card = (c) => {
    const box = el("article", undefined, `class ${c.fate.replace(" ", "-")}`);
    const head = el("h3");
    head.append(el("b", `${c.stage}.${c.class} ${c.fate}${c.to ? " " + c.to : ""}`));
    head.append(el("span", c.entry ? ` in at ${c.entry}` : ` stage ${c.stage}: ${data.stages[c.stage].why}`));
    const o = c.operations;
    const count = el("span", `${o.before} \u2192 ${o.after} operations`, "ops");
    count.title = `as written: ${kinds(o.before_by_kind)}; synthesized: ${kinds(o.after_by_kind)}`;
    head.append(count);
    if (c.path.length) {
      const way = el("button", "way", "more");
      way.title = "show its way in the graph";
      way.onclick = () => light(c);
      head.append(way);
    }
    box.append(head);
    const does = el("ol", undefined, "does");
    c.action.split("; ").forEach((a) => does.append(el("li", a)));
    box.append(does);
    const filters = el("ul", undefined, "filters");
    list(filters, c.filter, (f) => el("li", f));
    if (c.rules > c.filter.length) filters.append(el("li", `... ${c.rules} filters in all`));
    box.append(filters);
    if (c.origin.length) {
      const from = el("ul", undefined, "origin");
      list(from, c.origin, (o) => el("li", `${o.element}${o.argument ? " (" + o.argument + ")" : ""} ${place(o)}`));
      if (c.origins > c.origin.length) from.append(el("li", `... ${c.origins} rules in all`));
      box.append(from);
    }
    return box;
  };

  const show = () => {
    const pages = Math.max(1, Math.ceil(hits.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    $("count").textContent = `${hits.length} of ${all.length} classes`;
    $("page").textContent = `${page + 1} / ${pages}`;
    $("prev").disabled = page === 0;
    $("next").disabled = page === pages - 1;
    const g = groupName[$("group").value];
    const out = [];
    let last;
    hits.slice(page * PAGE, (page + 1) * PAGE).forEach((c) => {
      const k = g && g(c);
      if (g && k !== last) {
        out.push(el("h3", `${k} (${hits.filter((x) => g(x) === k).length})`, "group"));
        last = k;
      }
      out.push(card(c));
    });
    if (!hits.length) out.push(el("p", "No class fits."));
    $("list").replaceChildren(...out);
  };

  let timer;
  $("q").oninput = () => { clearTimeout(timer); timer = setTimeout(search, 120); };
  $("group").onchange = search;
  $("fate").onchange = search;
  $("prev").onclick = () => { page--; show(); };
  $("next").onclick = () => { page++; show(); };
  // a page can be linked with a search: #q=...
  const asked = new URLSearchParams(location.hash.slice(1)).get("q");
  if (asked) $("q").value = asked;
  search();
})();
