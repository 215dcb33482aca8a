// How the search ranks a page: by how many of the words that are asked for stand in one of its headings, and pages for
// people before pages for maintainers. Sphinx alone counts one word in any heading as much as all of them.
var Scorer = (() => {
  const words = (text) => {
    const stemmer = new Stemmer();
    const all = splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word));
    return new Set(all.map((word) => stemmer.stemWord(word)));
  };
  // The headings of a page, each with its weight: the page's own title is said of all of it.
  const headings = (page) => {
    const file = Search._index.docnames.indexOf(page);
    const all = Object.entries(Search._index.alltitles).filter(([, places]) => places.some(([one]) => one === file));
    return all.map(([title]) => [title, title === Search._index.titles[file] ? 1.5 : 1]);
  };
  const share = (asked, [title, weight]) => {
    const own = words(title);
    const met = [...asked].filter((word) => own.has(word)).length;
    return met === 0 ? 0 : weight * (met / asked.size + met / own.size / 10);
  };
  const group = (page) => {
    if (/^adr\/|changelog|drills?[-/]/.test(page)) return -30;
    if (/^maintainers\//.test(page)) return -15;
    return /^(index|accuracy)$|transcripts|first-day|^reference\//.test(page) ? -8 : 0;
  };
  return {
    score: ([page, , , , score]) => {
      const asked = words(new URLSearchParams(window.location.search).get("q") || "");
      return score + group(page) + 20 * Math.max(0, ...headings(page).map((heading) => share(asked, heading)));
    },
    // The rest is as Sphinx has it.
    objNameMatch: 11,
    objPartialMatch: 6,
    objPrio: { 0: 15, 1: 5, 2: -5 },
    objPrioDefault: 0,
    title: 15,
    partialTitle: 7,
    term: 5,
    partialTerm: 2,
  };
})();
