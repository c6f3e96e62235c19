// Search, old addresses, the same keyword in other versions, keys. Every page can be read without
// it. Data comes as scripts, since pages from file:// read no files.
(function () {
  "use strict";

  var body = document.body;
  var root = body.dataset.root || "";
  var own = body.dataset.version;
  var data = {};
  var waiting = {};

  // Called by the scripts below data/.
  window.manualData = function (what, folder, value) {
    data[folder + "/" + what] = value;
  };

  function script(url) {
    if (!waiting[url]) {
      waiting[url] = new Promise(function (done, failed) {
        var element = document.createElement("script");
        element.src = url;
        element.onload = done;
        element.onerror = function () {
          waiting[url] = null;
          failed(new Error(url + " can't be loaded"));
        };
        document.head.append(element);
      });
    }
    return waiting[url];
  }

  function load(what, folder) {
    return script(root + folder + "/data/" + what + ".js").then(function () {
      return data[folder + "/" + what];
    });
  }

  // ---- Names ----

  function sectionOf(names, keyword) {
    return names.sections[keyword[1]];
  }

  function place(names, page, id) {
    return { page: names.pages[page], id: id };
  }

  function address(found) {
    return root + found.page + (found.id ? "#" + encodeURIComponent(found.id) : "");
  }

  // Where an address of haproxy-dconv is: "4.2", "chapter-4", "4.2-bind", "4-bind", "bind",
  // "bind (Proxies)", "capture" for "capture cookie".
  function oldPlace(names, documentName, anchor) {
    var document_ = names.documents.findIndex(function (one) { return one[0] === documentName; });
    var mine = function (section) { return section && section[0] === document_; };
    var wanted = anchor.trim();
    var number = /^(?:chapter-)?(\d+(?:\.\d+)*)$/.exec(wanted);
    var id = number ? number[1] : wanted.replace(/^chapter-/, "");
    var section = names.sections.find(function (one) { return mine(one) && one[4] === id; });
    if (section) {
      return place(names, section[3], section[4]);
    }
    var keywords = names.keywords.filter(function (one) { return mine(sectionOf(names, one)); });
    function inside(keyword, test) {
      return test(sectionOf(names, keyword)) || names.sections.some(function (above) {
        var below = sectionOf(names, keyword)[1];
        return mine(above) && below && above[1] && below.startsWith(above[1] + ".") && test(above);
      });
    }
    function named(name, test) {
      var there = keywords.filter(function (keyword) {
        return (keyword[0] === name || keyword[0].startsWith(name + " ")) && inside(keyword, test);
      });
      var found = there.find(function (keyword) { return keyword[0] === name && !keyword[4]; })
        || there.find(function (keyword) { return keyword[0] === name; })
        || there[0];
      return found && place(names, found[2], found[3]);
    }
    var any = function () { return true; };
    function read(name) {
      name = name.replace(/^no /, "");
      var prefixed = /^(\d+(?:\.\d+)*)-(.+)$/.exec(name);
      var titled = /^(.*?) \((.*)\)$/.exec(name);
      return named(name, any)
        || prefixed && named(prefixed[2].replace(/^no /, ""), function (one) { return one[1] === prefixed[1]; })
        // dconv has lost some sections, and takes their keywords for another's.
        || prefixed && named(prefixed[2].replace(/^no /, ""), any)
        || titled && named(titled[1], function (one) { return one[2] === titled[2]; });
    }
    // What a keyword takes was part of some names.
    return read(wanted) || read(wanted.replace(/[<\[({|].*?(?=$| \()/, "").trim()) || null;
  }

  function follow() {
    var anchor = "";
    try {
      anchor = decodeURIComponent(location.hash.slice(1));
    } catch (error) {
      return;
    }
    if (!anchor || !own || document.getElementById(anchor)) {
      return;
    }
    load("names", own).then(function (names) {
      var found = oldPlace(names, body.dataset.document, anchor);
      if (found) {
        location.replace(address(found));
      }
    });
  }

  // The same keyword or section in another version.
  function elsewhere(mine, theirs, anchor) {
    var page = body.dataset.page;
    var here = mine.keywords.find(function (one) {
      return mine.pages[one[2]] === page && one[3] === anchor;
    }) || (!anchor && mine.keywords.filter(function (one) {
      return mine.pages[one[2]] === page;
    }).find(function (one, _, all) {
      return all.length && one[1] === all[0][1] && !mine.sections.some(function (section) {
        return section && mine.pages[section[3]] === page;
      });
    }));
    if (!here) {
      return null;
    }
    var title = sectionOf(mine, here)[2];
    var name = mine.documents[sectionOf(mine, here)[0]][0];
    var same = theirs.keywords.filter(function (one) {
      var section = sectionOf(theirs, one);
      return one[0] === here[0] && section && theirs.documents[section[0]][0] === name;
    });
    var found = same.find(function (one) { return sectionOf(theirs, one)[2] === title; }) || same[0];
    return found ? place(theirs, found[2], found[3]) : null;
  }

  function switchVersion(event) {
    var link = event.target.closest("a[data-to-version]");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) {
      return;
    }
    event.preventDefault();
    var folder = link.dataset.toVersion;
    var anchor = decodeURIComponent(location.hash.slice(1));
    Promise.all([load("names", own), load("names", folder)]).then(function (both) {
      var found = elsewhere(both[0], both[1], anchor);
      location.href = found ? address(found) : link.href;
    }, function () {
      location.href = link.href;
    });
  }

  // ---- Search ----

  var box = document.querySelector(".search");
  var list = document.querySelector(".hits");
  var found = document.querySelector(".found");
  var engine = null;
  var MOST_NAMES = 8;
  var MOST_HITS = 20;
  var EXCERPT = 160;

  // As each_term in search.rs cuts the texts.
  function terms(text) {
    return text.match(/[\p{Alphabetic}\p{N}_]+(?:[-.+]+[\p{Alphabetic}\p{N}_]+)*/gu) || [];
  }

  function ready() {
    if (!engine) {
      engine = Promise.all([
        script(root + "assets/minisearch.js"), load("names", own), load("index", own), load("texts", own)
      ]).then(function (loaded) {
        var index = MiniSearch.loadJS(loaded[2], {
          fields: ["name", "title", "text"],
          tokenize: terms
        });
        var all = { names: loaded[1], index: index, texts: loaded[3] };
        // A browser compiles what runs often: that is done before somebody waits for it.
        ["a the", "of in", "zzqqzz"].forEach(function (words) { search(all, words); });
        return all;
      });
      engine.catch(function () { engine = null; });
    }
    return engine;
  }

  // Names that begin with what was typed come first, then those that have it.
  function completions(names, typed) {
    var wanted = typed.trim().toLowerCase().replace(/\s+/g, " ");
    var begins = [];
    var has = [];
    for (var at = 0; at < names.keywords.length && begins.length < MOST_NAMES; at += 1) {
      var keyword = names.keywords[at];
      var where = keyword[4] ? -1 : keyword[0].indexOf(wanted);
      if (where === 0) {
        begins.push(keyword);
      } else if (where > 0 && has.length < MOST_NAMES) {
        has.push(keyword);
      }
    }
    begins.sort(function (a, b) { return a[0].length - b[0].length; });
    return begins.concat(has).slice(0, MOST_NAMES);
  }

  function search(loaded, typed) {
    var options = {
      boost: { name: 6, title: 3 },
      combineWith: "AND",
      prefix: function (term) { return term.length > 1; }
    };
    var hits = loaded.index.search(typed, options);
    if (!hits.length) {
      options.fuzzy = 0.2;
      hits = loaded.index.search(typed, options);
    }
    return hits.slice(0, MOST_HITS);
  }

  // The words around the first hit, with all hits marked.
  function excerpt(text, words) {
    var lower = text.toLowerCase();
    var first = words.reduce(function (least, word) {
      var at = lower.indexOf(word);
      return at >= 0 && at < least ? at : least;
    }, lower.length);
    var start = first === lower.length ? 0 : Math.max(0, text.lastIndexOf(" ", Math.max(0, first - 40)));
    var paragraph = document.createElement("p");
    marked(text.slice(start, start + EXCERPT).trim(), words, paragraph);
    return paragraph;
  }

  function pattern(words) {
    var escaped = words.filter(Boolean).map(function (word) {
      return word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    });
    escaped.sort(function (a, b) { return b.length - a.length; });
    return escaped.length ? new RegExp("(" + escaped.join("|") + ")", "giu") : null;
  }

  function marked(text, words, into) {
    var wanted = pattern(words);
    text.split(wanted || /$^/).forEach(function (piece, at) {
      if (at % 2) {
        var mark = document.createElement("mark");
        mark.textContent = piece;
        into.append(mark);
      } else {
        into.append(piece);
      }
    });
  }

  function option(found_, label, above, words) {
    var link = document.createElement("a");
    var to = address(found_).split("#");
    var query = words.length ? "?find=" + encodeURIComponent(words.join(" ")) : "";
    link.href = to[0] + query + (to[1] ? "#" + to[1] : "");
    link.setAttribute("role", "option");
    link.setAttribute("aria-selected", "false");
    link.tabIndex = -1;
    link.id = "page:hit-" + list.children.length;
    var name = document.createElement("b");
    marked(label, words, name);
    var where = document.createElement("small");
    where.textContent = above;
    link.append(name, where);
    list.append(link);
    return link;
  }

  function show(loaded, typed) {
    var names = loaded.names;
    var words = terms(typed.toLowerCase());
    list.replaceChildren();
    var seen = {};
    completions(names, typed).forEach(function (keyword) {
      var section = sectionOf(names, keyword);
      var to = place(names, keyword[2], keyword[3]);
      seen[to.page + "#" + to.id] = true;
      option(to, keyword[0], title(section), words).className = "name";
    });
    var hits = words.length ? search(loaded, typed) : [];
    hits.forEach(function (hit) {
      var unit = names.units[hit.id];
      var to = place(names, unit[3], unit[4]);
      if (!seen[to.page + "#" + to.id]) {
        var matched = Object.keys(hit.match);
        var link = option(to, unit[0], unit[1] || names.documents[unit[2]][1], words);
        link.append(excerpt(loaded.texts[hit.id], words.concat(matched)));
      }
    });
    var count = list.children.length;
    if (!count) {
      var none = document.createElement("p");
      none.className = "none";
      none.setAttribute("role", "option");
      none.setAttribute("aria-disabled", "true");
      none.textContent = "Nothing found";
      list.append(none);
    }
    found.textContent = count ? count + " hits" : "Nothing found";
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
    select(null);
  }

  function title(section) {
    return (section[1] ? section[1] + ". " : "") + section[2];
  }

  function close() {
    list.hidden = true;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  }

  function options() {
    return Array.from(list.querySelectorAll("a[role=option]"));
  }

  function select(link) {
    options().forEach(function (one) {
      one.setAttribute("aria-selected", String(one === link));
    });
    if (link) {
      box.setAttribute("aria-activedescendant", link.id);
      link.scrollIntoView({ block: "nearest" });
    } else {
      box.removeAttribute("aria-activedescendant");
    }
  }

  function typed() {
    var text = box.value;
    if (!text.trim()) {
      close();
      return;
    }
    ready().then(function (loaded) {
      if (box.value === text) {
        show(loaded, text);
      }
    }, function () {
      found.textContent = "The search can't be loaded";
    });
  }

  function keys(event) {
    var all = options();
    var at = all.findIndex(function (one) { return one.getAttribute("aria-selected") === "true"; });
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      var step = event.key === "ArrowDown" ? 1 : -1;
      select(all[(at + step + all.length + (at < 0 && step < 0 ? 1 : 0)) % all.length] || null);
    } else if (event.key === "Enter") {
      event.preventDefault();
      var link = all[at < 0 ? 0 : at];
      if (link && !list.hidden) {
        close();
        location.href = link.href;
      }
    } else if (event.key === "Escape") {
      close();
    }
  }

  // What was searched for is marked on the page that the hit led to.
  function markFound() {
    var words = terms((new URLSearchParams(location.search).get("find") || "").toLowerCase());
    var wanted = pattern(words);
    var article = document.querySelector("article");
    if (!wanted || !article) {
      return;
    }
    var walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    var nodes = [];
    while (walker.nextNode()) {
      if (walker.currentNode.data.trim()) {
        nodes.push(walker.currentNode);
      }
    }
    nodes.forEach(function (node) {
      wanted.lastIndex = 0;
      if (wanted.test(node.data)) {
        var pieces = document.createDocumentFragment();
        marked(node.data, words, pieces);
        node.replaceWith(pieces);
      }
    });
  }

  function pageKeys(event) {
    var busy = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
    if (busy || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    var turn = { n: "a.next", p: "a.prev" }[event.key];
    if (event.key === "/" && box) {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (turn && document.querySelector(turn)) {
      document.querySelector(turn).click();
    }
  }

  document.addEventListener("keydown", pageKeys);
  document.addEventListener("click", switchVersion);
  window.addEventListener("hashchange", follow);
  if (box) {
    box.form.hidden = false;
    box.form.addEventListener("submit", function (event) { event.preventDefault(); });
    box.addEventListener("focus", ready);
    box.addEventListener("input", typed);
    box.addEventListener("keydown", keys);
    document.addEventListener("click", function (event) {
      if (!box.form.contains(event.target)) {
        close();
      }
    });
  }
  var current = document.querySelector(".side [aria-current]");
  if (current) {
    var side = current.closest(".side");
    side.scrollTop = current.offsetTop - side.clientHeight / 3;
  }
  markFound();
  follow();

  // For tests, and for who embeds a page.
  window.manual = {
    ready: ready,
    search: function (text) { return ready().then(function (loaded) { return search(loaded, text); }); },
    oldPlace: function (anchor) {
      return load("names", own).then(function (names) { return oldPlace(names, body.dataset.document, anchor); });
    }
  };
}());
