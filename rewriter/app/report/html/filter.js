// The filter of the page: what is typed, and a status, hide the models, rules and firings that do not match.
(function () {
  const field = document.getElementById("find"), status = document.getElementById("status"), told = document.getElementById("told");
  const text = new Map();
  const of = (part) => {
    if (!text.has(part)) text.set(part, part.textContent.toLowerCase());
    return text.get(part);
  };
  const all = (part, what) => Array.from(part.querySelectorAll(what));
  const opened = new Set();
  const open = (fold, wanted) => {
    if (wanted && !fold.open) opened.add(fold), (fold.open = true);
    else if (!wanted && opened.delete(fold)) fold.open = false;
  };
  const plural = (number, word) => number.toLocaleString("en") + " " + word + (number === 1 ? "" : "s");
  function filter() {
    const query = field.value.trim().toLowerCase(), wanted = status ? status.value : "";
    let models = 0, firings = 0;
    all(document, "[data-status]").forEach((part) => {
      const right = !wanted || part.dataset.status === wanted;
      const named = !query || of(part.querySelector(".name") || part).includes(query);
      let found = 0;
      all(part, ".rule").forEach((rule) => {
        const whole = named || of(rule.querySelector("summary")).includes(query);
        let here = 0;
        all(rule, ".firing").forEach((firing) => {
          firing.hidden = !(whole || of(firing).includes(query));
          here += !firing.hidden;
        });
        all(rule, ".chunk").forEach((chunk) => {
          chunk.hidden = !chunk.querySelector(".firing:not([hidden])");
          open(chunk, query && !whole && !chunk.hidden);
        });
        rule.hidden = !here;
        open(rule, query && !whole && here > 0);
        found += here;
      });
      const told = document.getElementById(part.dataset.model) || part;
      part.hidden = !(right && (named || found || of(told).includes(query)));
      if (part.hidden) return;
      if (part.matches("section")) firings += found;
      else models += 1;
    });
    all(document, "tr[data-rule]").forEach((row) => (row.hidden = query !== "" && !of(row).includes(query)));
    const rows = document.querySelector("tr[data-status]");
    told.textContent = query || wanted ? (rows ? plural(models, "model") + ", " : "") + plural(firings, "firing") : "";
  }
  let waiting = 0;
  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  if (status) status.addEventListener("change", filter);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== field) event.preventDefault(), field.focus();
    if (event.key === "Escape" && event.target === field) (field.value = ""), filter();
  });
})();
