// How the search ranks a page: by how many of the words that are asked for stand in one of its headings, and pages for
// people before pages for maintainers. Sphinx alone counts one word in any heading as much as all of them.
var Scorer = (() => {
  const words = (text) => {
    const stemmer = new Stemmer();
    const all = splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word));
    return new Set(all.map((word) => stemmer.stemWord(word)));
  };
  const headings = (page) =>
    Object.entries(Search._index.alltitles)
      .filter(([, places]) => places.some(([file]) => Search._index.docnames[file] === page))
      .map(([title]) => title);
  const share = (asked, title) => {
    const own = words(title);
    const met = [...asked].filter((word) => own.has(word)).length;
    return met === 0 ? 0 : met / asked.size + met / own.size / 10;
  };
  const group = (page) => {
    if (/^(adr|maintainers|drills)\//.test(page)) return -30;
    return /transcripts|first-day|^reference\//.test(page) ? -8 : 0;
  };
  return {
    score: ([page, , , , score]) => {
      const asked = words(new URLSearchParams(window.location.search).get("q") || "");
      return score + group(page) + 20 * Math.max(0, ...headings(page).map((title) => share(asked, title)));
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
