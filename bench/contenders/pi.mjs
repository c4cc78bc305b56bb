// The Pi coding agent, through the modules it is made of: its command starts much more than the session.
import { peakMegabytes, timed } from "../lib/timed.mjs";

const dist = new URL("../node_modules/@earendil-works/pi-coding-agent/dist/core/", import.meta.url);
const { SessionManager } = await import(new URL("session-manager.js", dist).href);

export const tasks = {
  async open({ path }) {
    const { ms, result } = await timed(() => SessionManager.open(path).buildSessionContext());
    return { ms, messages: result.messages.length, peak: peakMegabytes() };
  },

  /** Its open reads everything: the same work as the index of another. */
  async index({ path }) {
    const { ms } = await timed(() => SessionManager.open(path));
    return { ms, peak: peakMegabytes() };
  },

  async oldLeaf({ path, id }) {
    const first = await timed(() => {
      const session = SessionManager.open(path);
      session.branch(id);
      return session.buildSessionContext();
    });
    return { first: first.ms, messages: first.result.messages.length };
  },
};
