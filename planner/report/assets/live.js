"use strict";
// The live part of a page of plan serve, as the server sends it again. While nobody sees the page nothing is asked for, so
// that the server can end.
const live = document.getElementById("live");
const state = document.getElementById("state");
let source = null;
let began = "";
const LIVE = "This page updates by itself.";

const show = (html) => {
  // A document of its own runs no script, and the policy of this one lets none run either.
  const part = new DOMParser().parseFromString(html, "text/html").body;
  const focused = document.activeElement?.id;
  const scrolled = live.querySelector(".scroll")?.scrollTop ?? 0;
  live.replaceChildren(...part.childNodes);
  if (focused) document.getElementById(focused)?.focus();
  const box = live.querySelector(".scroll");
  if (box) box.scrollTop = scrolled;
};

const open = () => {
  if (source || document.hidden) return;
  source = new EventSource(live.dataset.events);
  source.onopen = () => { state.textContent = LIVE; };
  source.addEventListener("page", (event) => {
    const message = JSON.parse(event.data);
    show(message.html);
    began ||= message.version;
    state.textContent = message.version === began ? LIVE : "what stands below has changed since: reload the page to see it";
  });
  source.onerror = () => {
    state.textContent = source.readyState === EventSource.CLOSED
      ? "the server has ended, or knows this page no more: plan serve begins another" : "no connection; trying again";
  };
};

const close = () => { source?.close(); source = null; };

document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
addEventListener("pagehide", close);
state.textContent = "connecting";
open();
