// Carries the directions of the screenplay out, one after the other, onto a recorder.
import { createAnswers } from "./answer.mjs";
import { parseDuration } from "./screenplay.mjs";
import { createVerbs } from "./verbs.mjs";
import { createWorkingTree } from "./working-tree.mjs";

/** Plays directions onto a recorder. */
export function playOnto(recorder, directions) {
  const stage = createStage(recorder);
  const { begin, parts, finish } = createAnswers(stage);
  const verbs = { ...createVerbs(stage), answer: begin };
  for (const direction of directions) {
    const { verb, place } = direction;
    try {
      if (Object.hasOwn(parts, verb)) parts[verb](direction);
      else {
        finish();
        if (!Object.hasOwn(verbs, verb)) throw new Error(`There is no direction called ${verb}.`);
        verbs[verb](direction);
      }
    } catch (cause) {
      throw new Error(`${place}: ${/** @type {Error} */ (cause).message}`, { cause });
    }
  }
  finish();
}

/** What all directions share: the session so far, the files of the project, the places that were named, and the model. */
function createStage(recorder) {
  const marks = new Map();
  const append = (type, fields) => recorder.append({ type, ...fields });
  return {
    recorder,
    tree: createWorkingTree(),
    marks,
    settings: { provider: undefined, modelId: undefined, thinkingLevel: "off" },
    append,
    appendMessage: (message, startedAt = recorder.now) =>
      append("message", { message: { ...message, timestamp: startedAt } }),
    /** Waits as long as the options of a direction say, or else as usual. */
    wait: ({ after }, usual) => recorder.wait(parseDuration(after ?? usual)),
    markOf(name) {
      if (!marks.has(name)) throw new Error(`No entry is marked ${name}.`);
      return marks.get(name);
    },
  };
}
