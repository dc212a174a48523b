(() => {
  const svg = document.getElementById("drawing");
  if (!svg) return;
  const $ = (id) => document.getElementById(id);
  const nodes = JSON.parse($("nodes").textContent);
  const overview = JSON.parse($("overview").textContent);
  const details = $("details");
  const elements = svg.getAttribute("viewBox").split(" ").map(Number); // all of them
  const boxes = [...svg.querySelectorAll(".boxes > g")];
  const edges = [...svg.querySelectorAll(".edges > path")];
  const MOST = 300; // lines of a configuration that are shown
  const LARGEST = 1.25; // nothing is drawn larger than this to fill the window
  const number = (n) => n.toLocaleString("en-US");
  const el = (tag, text, cls) => {
    const x = document.createElement(tag);
    if (text !== undefined) x.textContent = text;
    if (cls) x.className = cls;
    return x;
  };
  const draw = (tag, attributes, text) => {
    const x = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) x.setAttribute(k, v);
    if (text !== undefined) x.textContent = text;
    return x;
  };

  // The functions: layers side by side, in as many rows as the window suits, one row to the right and the next to the
  // left; or layers below one another.
  const W = 148, H = overview.counted ? 76 : 44, GAP = [96, 40];
  const rows = new Map();
  overview.nodes.forEach((n) => rows.set(n.layer, Math.max(rows.get(n.layer) || 0, n.slot + 1)));
  const layers = rows.size, widest = Math.max(...rows.values(), 1);
  const arrange = (columns) => {
    const down = columns === 0;
    const at = overview.nodes.map((n) => {
      const many = rows.get(n.layer);
      if (down) return [(n.slot + (widest - many) / 2) * (W + GAP[1]), n.layer * (H + GAP[1] + 14)];
      const row = Math.floor(n.layer / columns), k = n.layer % columns;
      const x = (row % 2 ? columns - 1 - k : k) * (W + GAP[0]);
      return [x, row * (widest * (H + GAP[1]) + 14) + (n.slot + (widest - many) / 2) * (H + GAP[1])];
    });
    const right = Math.max(...at.map((p) => p[0]), 0) + W, low = Math.max(...at.map((p) => p[1]), 0) + H;
    return { at, box: [-14, -14, right + 28, low + 28] };
  };
  const scale = (box, width, height) => Math.min(width / box[2], height / box[3], LARGEST);
  const best = (width, height) => {
    const all = [];
    for (let columns = 0; columns <= layers; columns++) {
      const a = arrange(columns), k = scale(a.box, width, height);
      all.push({ ...a, k, high: a.box[3] * k });
    }
    const most = Math.max(...all.map((a) => a.k));
    // of those that can be read alike the lowest: the page goes on below
    return all.filter((a) => a.k >= Math.min(most, 1) * 0.8).sort((a, b) => a.high - b.high)[0];
  };
  // where the line from inside a box to a place leaves the box
  const border = ([x, y], [cx, cy], [tx, ty]) => {
    const dx = tx - cx, dy = ty - cy;
    const kx = dx > 0 ? (x + W - cx) / dx : dx < 0 ? (x - cx) / dx : Infinity;
    const ky = dy > 0 ? (y + H - cy) / dy : dy < 0 ? (y - cy) / dy : Infinity;
    const k = Math.min(kx, ky, 1);
    return [cx + dx * k, cy + dy * k];
  };
  const crosses = (at, from, to, a, b) => overview.nodes.some((_, i) => {
    if (i === from || i === to) return false;
    for (let k = 1; k < 16; k++) {
      const x = a[0] + ((b[0] - a[0]) * k) / 16, y = a[1] + ((b[1] - a[1]) * k) / 16;
      if (x > at[i][0] - 4 && x < at[i][0] + W + 4 && y > at[i][1] - 4 && y < at[i][1] + H + 4) return true;
    }
    return false;
  });
  const functionName = (i) => overview.nodes[i].name;
  const edge = (at, e) => {
    const middle = (i) => [at[i][0] + W / 2, at[i][1] + H / 2];
    const a = middle(e.from), b = middle(e.to);
    const far = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
    const across = [-(b[1] - a[1]) / far, (b[0] - a[0]) / far];
    const back = overview.edges.some((o) => o.from === e.to && o.to === e.from);
    const by = back ? 11 : 0;
    const shift = (p) => [p[0] + across[0] * by, p[1] + across[1] * by];
    const bend = crosses(at, e.from, e.to, shift(a), shift(b)) ? H * 0.9 + 24 : 0;
    const over = [(a[0] + b[0]) / 2 + across[0] * (by + bend * 2), (a[1] + b[1]) / 2 + across[1] * (by + bend * 2)];
    const p = border(at[e.from], shift(a), bend ? over : shift(b)), q = border(at[e.to], shift(b), bend ? over : shift(a));
    const top = bend ? [(p[0] + 2 * over[0] + q[0]) / 4, (p[1] + 2 * over[1] + q[1]) / 4] : [(p[0] + q[0]) / 2, (p[1] + q[1]) / 2];
    const line = draw("path", { d: bend ? `M${p} Q${over} ${q}` : `M${p} L${q}`, "marker-end": "url(#tip)" });
    line.append(draw("title", {}, e.by.join(", ") + (e.packets === null ? "" : `: ${number(e.packets)} packets`)));
    // beside the line, on the side that no other one is on
    const flat = Math.abs(across[1]) > Math.abs(across[0]);
    const off = flat ? [0, (across[1] < 0 ? -1 : 1) * (back || bend ? 9 : -9)] : [(across[0] < 0 ? -1 : 1) * 8, 0];
    const anchor = flat ? "middle" : across[0] < 0 ? "end" : "start";
    const text = e.packets === null ? undefined : draw("text", {
      class: "cnt", x: top[0] + off[0], y: top[1] + off[1] + 4, "data-from": functionName(e.from),
      "data-to": functionName(e.to), style: `text-anchor:${anchor}`,
    }, number(e.packets));
    return [line, text];
  };
  const box = (n, i, [x, y]) => {
    const g = draw("g", {
      class: n.port ? "fn port" : "fn", transform: `translate(${x} ${y})`, "data-n": n.name, tabindex: 0, role: "button",
      "aria-label": n.port ? `port ${n.name}` : `function ${n.name}`,
    });
    g.append(draw("rect", { width: W, height: H, rx: n.port ? 22 : 8 }));
    const cut = (s, most) => (s.length > most ? s.slice(0, most - 1) + "\u2026" : s);
    const line = (text, y, cls) => g.append(draw("text", { x: W / 2, y, class: cls }, text));
    const lines = [[cut(n.name, 18), 18, "b"], [n.port ? "port" : cut(n.kind, 22), 34, "s"]];
    if (overview.counted) {
      const end = n.in === null ? "" : n.port ? `${number(n.out)} in, ${number(n.in)} out` : `${number(n.in)} in`;
      lines.push([end, 52, "s"]);
      if (!n.port) lines.push([n.dropped ? `${number(n.dropped)} dropped` : "none dropped", 67, n.dropped ? "lost" : "s"]);
    }
    const high = (lines.length === 3 ? 7 : 0) + (lines.length === 2 ? 2 : 0);
    lines.forEach(([t, y, c]) => line(t, y + high, c));
    g.append(draw("title", {}, n.port ? `port ${n.name}` : `${n.name}: click for its elements`));
    const open = () => (n.port ? tell(n) : enter(n));
    g.addEventListener("click", () => moved || open());
    g.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" && e.key !== " ") return;
      e.preventDefault();
      open();
    });
    return g;
  };

  let view = elements.slice(), whole = elements, moved = false;
  const show = () => svg.setAttribute("viewBox", view.map((v) => v.toFixed(2)).join(" "));
  const size = () => {
    const r = svg.getBoundingClientRect();
    return [Math.max(r.width, 1), Math.max(r.height, 1)];
  };
  // shows this much, in the middle, not too large
  const fit = ([x, y, w, h]) => {
    const [width, height] = size();
    const wide = Math.max(w, width / LARGEST), high = Math.max(h, height / LARGEST);
    view = [x - (wide - w) / 2, y - (high - h) / 2, wide, high];
    show();
  };
  const zoom = (k, fx, fy) => {
    view = [view[0] + view[2] * fx * (1 - k), view[1] + view[3] * fy * (1 - k), view[2] * k, view[3] * k];
    show();
  };
  // as high as what is to be seen needs, within the window
  const room = (box, least) => {
    const [width] = size(), most = innerHeight * 0.75;
    svg.style.height = `${Math.max(Math.min(box[3] * scale(box, width, most), most), least)}px`;
  };
  const change = (to) => {
    svg.dataset.view = to;
    $("by-function").setAttribute("aria-pressed", to === "functions");
    $("by-element").setAttribute("aria-pressed", to === "elements");
  };
  const functions = () => {
    change("functions");
    svg.style.height = "";
    const [width] = size(), most = innerHeight * 0.75;
    const a = best(width, most);
    const parts = overview.edges.map((e) => edge(a.at, e));
    $("functions").replaceChildren(
      ...parts.map((p) => p[0]), ...overview.nodes.map((n, i) => box(n, i, a.at[i])), ...parts.map((p) => p[1]).filter(Boolean));
    // lines round boxes may lead beyond them
    const drawn = $("functions").getBBox();
    whole = [drawn.x - 10, drawn.y - 10, drawn.width + 20, drawn.height + 20];
    room(whole, 150);
    fit(whole);
    hint("Click a function to see its elements.");
  };
  const all = () => {
    if (svg.dataset.view !== "elements") {
      change("elements");
      hint("Click an element for its configuration.");
    }
    whole = elements;
  };
  const frames = (name) => [...svg.querySelectorAll(".nf")].find((g) => g.dataset.nf === name);
  const frame = (name) => {
    const r = frames(name)?.querySelector("rect");
    return r && ["x", "y", "width", "height"].map((k) => Number(r.getAttribute(k)));
  };
  const close = ([x, y, w, h]) => {
    const box = [x - 16, y - 16, w + 32, h + 32];
    room(box, 280);
    fit(box);
  };
  // a function's elements
  const enter = (n) => {
    all();
    const f = frame(n.name);
    close(f || elements);
    tell(n);
  };

  const hint = (text) => details.replaceChildren(el("p", text, "mut"));
  const drops = (list) => {
    if (!list || !list.length) return;
    details.append(el("p", "dropped"));
    const ul = el("ul");
    list.forEach((d) => ul.append(el("li", `${number(d.packets)}: ${d.reason}`)));
    details.append(ul);
  };
  const tell = (n) => {
    details.replaceChildren(el("h3", n.name), el("p", n.port ? "port of the chain" : n.kind, "mut"));
    if (overview.counted && n.in !== null) {
      const [came, went] = n.port ? [n.out, n.in] : [n.in, n.out];
      details.append(el("p", `${number(came)} packets in, ${number(went)} out`));
    }
    drops(n.drops);
    if (!n.port) details.append(el("p", "Click an element for its configuration.", "mut"));
  };
  const select = (i) => {
    boxes.forEach((b) => b.classList.toggle("sel", Number(b.dataset.i) === i));
    edges.forEach((p) => p.classList.toggle("on", Number(p.dataset.a) === i || Number(p.dataset.b) === i));
    const n = nodes[i];
    details.replaceChildren(el("h3", n.id), el("p", n.class));
    if (n.line) details.append(el("p", `declared at ${n.file}:${n.line}`));
    drops(n.drops);
    const lines = n.config.slice(0, MOST);
    if (n.config.length > MOST) lines.push(`... ${n.config.length - MOST} more`);
    if (lines.length) details.append(el("pre", lines.join("\n")));
  };
  boxes.forEach((b) => b.addEventListener("click", () => moved || select(Number(b.dataset.i))));

  svg.addEventListener("wheel", (e) => {
    // over functions the page scrolls
    if (svg.dataset.view === "functions" && !e.ctrlKey) return;
    e.preventDefault();
    const r = svg.getBoundingClientRect();
    zoom(Math.exp(e.deltaY * 0.0012), (e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height);
  }, { passive: false });
  let drag = null;
  svg.addEventListener("pointerdown", (e) => { moved = false; drag = [e.clientX, e.clientY, view[0], view[1]]; });
  addEventListener("pointermove", (e) => {
    if (!drag) return;
    const [dx, dy] = [e.clientX - drag[0], e.clientY - drag[1]];
    if (!moved && Math.hypot(dx, dy) < 5) return;
    moved = true;
    const [width, height] = size();
    const k = Math.max(view[2] / width, view[3] / height);
    view[0] = drag[2] - dx * k;
    view[1] = drag[3] - dy * k;
    show();
  });
  ["pointerup", "pointercancel"].forEach((e) => addEventListener(e, () => { drag = null; }));

  const place = (i) => boxes[i].transform.baseVal[0].matrix;
  const find = $("find");
  find.addEventListener("input", () => {
    const q = find.value.trim().toLowerCase();
    let hits = 0, at = -1;
    boxes.forEach((b) => {
      const n = nodes[Number(b.dataset.i)];
      const hit = q !== "" && (`${n.id} ${n.class}`.toLowerCase().includes(q) || n.config.some((c) => c.toLowerCase().includes(q)));
      b.classList.toggle("hit", hit);
      if (hit && hits++ === 0) at = Number(b.dataset.i);
    });
    $("found").textContent = q ? `${hits} found` : "";
    if (at >= 0) {
      all();
      room(elements, innerHeight * 0.75);
      const m = place(at), f = frame(nodes[at].nf), [width, height] = size();
      const w = Math.min(f ? f[2] + 40 : 600, width), h = (w * height) / width;
      fit([m.e + 75 - w / 2, m.f + 18 - h / 2, w, h]);
    }
  });

  $("by-function").onclick = functions;
  $("by-element").onclick = () => { all(); close(elements); };
  $("fit").onclick = () => fit(whole);
  $("in").onclick = () => zoom(1 / 1.4, 0.5, 0.5);
  $("out").onclick = () => zoom(1.4, 0.5, 0.5);
  let width = innerWidth;
  addEventListener("resize", () => {
    // bars of a phone's browser come and go
    if (innerWidth === width) return;
    width = innerWidth;
    svg.dataset.view === "functions" ? functions() : close(whole);
  });
  // elements, by number, are lit: they are shown, with what is between them
  window.showElements = (list) => {
    all();
    const at = list.filter((i) => boxes[i]).map(place);
    if (!at.length) return;
    const [left, top] = [Math.min(...at.map((m) => m.e)), Math.min(...at.map((m) => m.f))];
    close([left, top, Math.max(...at.map((m) => m.e)) + 150 - left, Math.max(...at.map((m) => m.f)) + 36 - top]);
  };
  functions();
})();
