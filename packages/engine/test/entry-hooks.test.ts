import { defineExtension, type Extension, openSession, type Session } from "@espalier/engine";
import { custom, messageText, type UserMessage } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { addedSince, bytesOf, contextOf, plant, plantWith, soundAnswer, turn } from "./build-session.ts";

/** Redacts like an extension that was written in an hour: every text of a message. */
const redacting: Extension = (api) => {
  api.on(
    "entry_before_append",
    ({ entry }) => {
      const text = JSON.stringify(entry);
      if (text.includes("hunter2")) return { entry: JSON.parse(text.replaceAll("hunter2", "[secret]")) };
      return undefined;
    },
    { critical: true },
  );
};

describe("entry_before_append", () => {
  test("changes both disk and memory: only its result is used", async () => {
    const { session, store } = await plantWith(redacting);
    const before = bytesOf(session);
    await session.appendMessages([{ role: "user", content: "The password is hunter2." }]);
    expect(JSON.stringify(addedSince(session, before))).not.toContain("hunter2");
    const { messages } = await contextOf(session, store);
    expect(messages.at(-1)).toMatchObject({ content: "The password is [secret]." });
  });

  test("is called for every kind of append: summaries, labels, names, pins, forks", async () => {
    const summarizer = scriptedSummarizer((request) => `${soundAnswer(request)}\nhunter2`);
    const { session, store } = await plant({ extensions: [redacting], summarizer });
    const path = session.getBranch();
    await session.compact({ instructions: "hunter2" });
    await session.navigate(path[3]!.id, { summarize: true, label: "hunter2" });
    await session.rename("hunter2");
    const { file } = await session.fork(path[1]!.id, { summarize: true });
    await session.merge(path.at(-1)!.id);
    const fork = await openSession({ file }, { store, mode: "read" });
    for (const one of [session, fork]) expect(bytesOf(one).includes("hunter2")).toBe(false);
    expect(session.name).toBe("[secret]");
  });

  test("that is critical and fails prevents the entry, and the caller gets the error", async () => {
    const { session } = await plantWith((api) => {
      api.on(
        "entry_before_append",
        ({ entry }) => {
          if (JSON.stringify(entry).includes("secret")) throw new Error("cannot redact");
        },
        { critical: true },
      );
    });
    const before = bytesOf(session);
    await expect(session.appendMessages([{ role: "user", content: "secret" }])).rejects.toMatchObject({
      code: "critical-handler-failed",
    });
    expect(bytesOf(session).equals(before)).toBe(true);
    await session.appendMessages([{ role: "user", content: "fine" }]);
  });

  test("cannot change the identity of an entry: an invalid answer is refused and reported", async () => {
    const { session, reports } = await plantWith((api) => {
      api.on("entry_before_append", () => ({ entry: null }) as never);
    });
    expect(session.getBranch()).toHaveLength(16);
    expect(reports[0]).toMatchObject({ kind: "invalid-answer" });
  });

  test.each([
    ["lacks a field of its kind", { type: "message", message: {} }, /refused: `message` has no role/],
    [
      "cannot be written as JSON",
      { type: "message", message: { role: "user", content: "x", at: new Date(0) } },
      /refused: message\.at is an instance of Date, which JSON cannot hold/,
    ],
  ])(
    "an entry that %s is refused with its owner's name, and the given one is written",
    async (_, entry, why) => {
      const { session, reports } = await plantWith(
        defineExtension("careless", (api) => void api.on("entry_before_append", () => ({ entry }) as never)),
      );
      expect(session.context.messages).toHaveLength(16);
      expect(reports[0]).toMatchObject({ kind: "invalid-answer", owners: ["careless"] });
      expect(reports[0]!.message).toMatch(why);
      // An entry that no handler changed is the caller's fault.
      reports.length = 0;
      const own = session.append({ type: "label", label: "x" } as never);
      await expect(own).rejects.toMatchObject({ code: "invalid-entry" });
    },
  );

  test.each([
    ["id", "taken"],
    ["parentId", "nowhere"],
    ["targetId", "nothing"],
  ])("cannot change `%s`: the answer is refused with its owner's name", async (field, value) => {
    const { session, reports } = await plantWith(
      defineExtension(
        "moving",
        (api) =>
          void api.on("entry_before_append", ({ entry }) => {
            if (entry.type === "label") (entry as Record<string, unknown>)[field] = value;
          }),
      ),
    );
    const leafId = session.leafId!;
    await session.label(leafId, "here");
    expect(session.getLabel(leafId)).toBe("here");
    expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["moving"] }]);
    expect(reports[0]!.message).toContain(`\`${field}\` cannot be changed`);
  });

  test("cannot append to the session that waits for it: it gets an error at once, and can append later", async () => {
    const refused: unknown[] = [];
    let later: Promise<unknown> | undefined;
    let open = (): void => {};
    const planted = new Promise<void>((resolve) => {
      open = resolve;
    });
    const { session: other } = await plant({ turns: 0 });
    const { session, reports } = await plantWith((api) => {
      const counter = api.state<number>("counter", { initial: 0 });
      api.on("entry_before_append", async ({ entry }) => {
        if (entry.type !== "message") return;
        await counter.append(1).catch((error: unknown) => refused.push(error));
        await other.append({ type: "custom", customType: "mirror" } as never);
        later ??= planted.then(() => counter.append(2));
      });
    });
    expect(refused).toHaveLength(16);
    expect(refused[0]).toMatchObject({ code: "nested-append" });
    expect(reports).toEqual([]);
    expect(other.getEntries()).toHaveLength(16);
    open();
    await later;
    expect(session.getEntries().at(-1)).toMatchObject({ type: "custom", data: 2 });
  });

  test("prints no warning of Node.js for a long batch", async () => {
    const warnings: Error[] = [];
    const listen = (warning: Error) => warnings.push(warning);
    process.on("warning", listen);
    const { session } = await plantWith(redacting);
    await session.appendMessages(
      Array.from({ length: 40 }, () => ({ role: "user", content: "one" }) as const),
    );
    await new Promise(setImmediate);
    process.off("warning", listen);
    expect(warnings).toEqual([]);
  });

  test("cannot append to it through another session either", async () => {
    const sessions: Session[] = [];
    const refused: unknown[] = [];
    const appendingTo =
      (other: number): Extension =>
      (api) => {
        api.on("entry_before_append", async ({ entry }) => {
          if (entry.type === "session_info" || !sessions[other]) return;
          await sessions[other]
            .append({ type: "custom", customType: "ring" } as never)
            .catch((error: unknown) => {
              refused.push(error);
            });
        });
      };
    for (const other of [1, 0])
      sessions.push((await plant({ turns: 0, extensions: [appendingTo(other)] })).session);
    await sessions[0]!.appendMessages([{ role: "user", content: "round" }]);
    expect(refused).toMatchObject([{ code: "nested-append" }]);
    expect(sessions.map((session) => session.getEntries().length)).toEqual([1, 1]);
  });
});

describe("entry_appended", () => {
  test("reports every entry in order, with the entry itself; closing waits for the last one", async () => {
    const mirror: string[] = [];
    const { session } = await plant({
      turns: 2,
      extensions: [
        (api) => {
          api.on("entry_appended", async ({ entry }) => {
            await new Promise((resolve) => setTimeout(resolve, 2));
            mirror.push(entry.id);
            expect(session.getEntry(entry.id)).toBe(entry);
            expect(Object.isFrozen(entry)).toBe(true);
          });
        },
      ],
    });
    await session.label(session.leafId!, "here");
    const ids = session.getEntries().map(({ id }) => id);
    await session.close();
    expect(mirror).toEqual(ids);
  });

  test("closing also waits for entries written during the wait, and by handlers of them", async () => {
    const mirror: string[] = [];
    const { session } = await plantWith((api) => {
      const notes = api.state("notes", { initial: "" });
      api.on("entry_appended", async ({ entry }) => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        mirror.push(entry.id);
      });
      api.on("session_shutdown", async () => void (await notes.append("good night")));
    });
    void session.compact();
    await session.close();
    const entries = session.getEntries();
    expect(entries.slice(-2).map(({ type }) => type)).toEqual(["compaction", "custom"]);
    expect(mirror).toEqual(entries.map(({ id }) => id));
  });

  test("a mirror that fails or hangs does not stop appends", async () => {
    const { session, reports } = await plantWith((api) => {
      api.on("entry_appended", () => Promise.reject(new Error("no mirror")), { critical: true });
      api.on("entry_appended", () => new Promise<void>(() => {}), { timeoutMs: 5 });
    });
    await session.appendMessages(turn("5"));
    await session.close();
    expect(reports.filter(({ kind }) => kind === "threw")).toHaveLength(20);
    expect(reports.filter(({ kind }) => kind === "timed-out")).toHaveLength(20);
  });
});

test("a failed ctx.compact names the extension that called it", async () => {
  const hasty = defineExtension("hasty", (api) => {
    api.on("entry_appended", (_event, ctx) => ctx.compact());
    api.registerCommand("tidy", { handler: (_args, ctx) => ctx.compact() });
  });
  const { session, reports } = await plant({ turns: 0, extensions: [hasty] });
  await session.append(custom.of({ customType: "begin" }));
  await session.settle();
  await session.runCommand("tidy");
  const report = { kind: "failed-act", owners: ["hasty"] };
  expect(reports).toMatchObject([report, report]);
  expect(reports[0]!.message).toMatch(/^hasty called ctx.compact, which failed: /);
});

describe("context", () => {
  const shaping = (change: (messages: UserMessage[]) => void): Extension => {
    return (api) => {
      api.on("context", ({ messages }) => change(messages as UserMessage[]));
    };
  };

  test("changes the sent messages, and nothing in the session", async () => {
    const { session, store } = await plantWith(
      shaping((messages) => {
        messages[0]!.content = "Changed.";
        messages.push({ role: "user", content: "Injected.", timestamp: 0 });
      }),
    );
    const before = await contextOf(session, store);
    const sent = await session.contextToSend();
    expect(sent.messages).toHaveLength(17);
    expect(sent.messages[0]).toMatchObject({ content: "Changed." });
    expect(sent.sources.at(-1)).toBe("");
    expect(sent.sources.slice(1, 16)).toEqual(before.sources.slice(1));
    // What was signed over another beginning cannot be sent back.
    expect(sent.prefixChanged.slice(1)).toEqual(Array.from({ length: 16 }, () => true));
    expect(session.context).toEqual(before);
    await session.appendMessages(turn("5"));
    expect((await session.contextToSend()).messages).toHaveLength(21);
    await contextOf(session, store);
  });

  test("without changes sends the session's own context", async () => {
    const { session } = await plantWith(shaping(() => {}));
    expect(await session.contextToSend()).toBe(session.context);
    expect(await session.contextToSend()).toBe(session.context);
  });

  test.each([
    ["no message", [null]],
    ["a text", ["Hello."]],
    ["a hole", Array(1)],
  ])("with %s in the list is refused with its owner's name", async (_, messages) => {
    const { session, reports } = await plantWith(
      defineExtension("careless", (api) => void api.on("context", () => ({ messages }) as never)),
    );
    expect((await session.prepareRequest()).context).toBe(session.context);
    expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["careless"] }]);
  });

  test("is passed from handler to handler in order of priority", async () => {
    const adding = (text: string, priority: number): Extension => {
      return (api) => {
        api.on(
          "context",
          ({ messages }) => void messages.push({ role: "user", content: text, timestamp: 0 }),
          {
            priority,
          },
        );
      };
    };
    const { session } = await plantWith(adding("second", 0), adding("first", 1));
    const { messages } = await session.contextToSend();
    expect(messages.slice(-2).map(messageText)).toEqual(["first", "second"]);
  });
});

describe("summary_request", () => {
  test("reports every call to a summarizer with its purpose, for parts and their combination too", async () => {
    const purposes: string[] = [];
    const summarizer = scriptedSummarizer(soundAnswer, { contextWindow: 8_000 });
    const { session } = await plant({
      turns: 0,
      summarizer,
      extensions: [
        (api) => {
          api.on("summary_request", ({ request }) => void purposes.push(request.purpose));
        },
      ],
    });
    for (let at = 1; at <= 30; at++) await session.appendMessages(turn(`${at}`, { size: 300 }));
    const path = session.getBranch();
    await session.compact({ settings: { keepRecentTokens: 310 } });
    expect(new Set(purposes)).toEqual(new Set(["chunk", "combine", "turn-prefix"]));
    expect(purposes).toHaveLength(summarizer.requests.length);
    purposes.length = 0;
    await session.navigate(path.at(-2)!.id, { summarize: true });
    await session.merge(path.at(-1)!.id);
    expect(purposes).toEqual(["branch", "merge"]);
  });

  test("can change the request, but not its time limit", async () => {
    const summarizer = scriptedSummarizer(soundAnswer);
    const { session } = await plant({
      summarizer,
      extensions: [
        (api) => {
          api.on("summary_request", ({ request }) => {
            request.instructions = `${request.instructions}\nAnswer in Latin.`;
            request.transcript = request.transcript.replaceAll("Question", "[redacted]");
            expect(Object.keys(request)).not.toContain("signal");
          });
        },
      ],
    });
    const progress: number[] = [];
    await session.compact({ onProgress: ({ outputTokens }) => progress.push(outputTokens) });
    const [request] = summarizer.requests;
    expect(request!.instructions).toMatch(/Answer in Latin\.$/);
    expect(request!.transcript).not.toContain("Question");
    expect(request!.signal).toBeInstanceOf(AbortSignal);
    expect(progress.length).toBeGreaterThan(0);
  });

  test("an invalid request is refused; a critical handler that fails prevents the request", async () => {
    const summarizer = scriptedSummarizer(soundAnswer);
    for (const change of [
      { instructions: 1 },
      { messages: [null] },
      { sections: null },
      { maxOutputTokens: "x" },
    ]) {
      const wrong = await plant({
        summarizer,
        extensions: [
          (api) => void api.on("summary_request", ({ request }) => void Object.assign(request, change)),
        ],
      });
      expect(await wrong.session.compact()).toMatchObject({ source: "scripted" });
      expect(wrong.reports).toMatchObject([{ kind: "invalid-answer" }]);
    }

    const guarded = await plant({
      summarizer,
      fallback: false,
      extensions: [
        (api) => {
          const refuse = () => Promise.reject(new Error("not to this provider"));
          api.on("summary_request", refuse, { critical: true });
        },
      ],
    });
    const asked = summarizer.requests.length;
    await expect(guarded.session.compact()).rejects.toMatchObject({
      code: "failed",
      message: expect.stringContaining("not to this provider"),
    });
    expect(summarizer.requests).toHaveLength(asked);
  });
});

describe("session_start and session_shutdown", () => {
  test("are sent once, with the session", async () => {
    const told: object[] = [];
    const { session } = await plantWith((api) => {
      api.on("session_start", (event) => void told.push({ ...event }));
      api.on("session_shutdown", (event) => void told.push({ ...event }));
    });
    const which = { sessionId: session.id, file: session.file };
    expect(told).toEqual([{ type: "session_start", reason: "startup", ...which }]);
    await session.close();
    // Who closes a closed session is not heard twice.
    await session.close();
    expect(told).toEqual([
      { type: "session_start", reason: "startup", ...which },
      { type: "session_shutdown", reason: "quit", ...which },
    ]);
  });

  test("a critical failing handler prevents opening, and never closing", async () => {
    const failing: Extension = (api) => {
      api.on("session_shutdown", () => Promise.reject(new Error("no")), { critical: true });
    };
    const { session, store } = await plantWith(failing);
    await session.close();
    await expect(session.rename("x")).rejects.toMatchObject({ code: "closed" });
    const refusing: Extension = (api) => {
      api.on("session_start", () => Promise.reject(new Error("no")), { critical: true });
    };
    await expect(
      openSession({ file: session.file }, { store, extensions: [refusing] }),
    ).rejects.toMatchObject({
      code: "critical-handler-failed",
    });
    await (await openSession({ file: session.file }, { store })).close();
  });
});
