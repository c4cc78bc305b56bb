import type { Harness } from "./harness.ts";

/** Every trial, by its name on the command line. Loaded when it is run, so that a child starts with its own trial alone. */
export const harnesses: Record<string, () => Promise<Harness>> = {
  kill: async () => (await import("./trials/kill.ts")).kill,
  conversation: async () => (await import("./trials/conversation.ts")).conversation,
  cut: async () => (await import("./trials/broken.ts")).cut,
  flip: async () => (await import("./trials/broken.ts")).flip,
  share: async () => (await import("./trials/share.ts")).share,
  lease: async () => (await import("./trials/lease.ts")).lease,
  room: async () => (await import("./trials/room.ts")).room,
  power: async () => (await import("./trials/power.ts")).power,
  outage: async () => (await import("./trials/outage.ts")).outage,
  calls: async () => (await import("./trials/calls.ts")).calls,
  lives: async () => (await import("./trials/lives.ts")).lives,
  schedule: async () => (await import("./trials/schedule.ts")).schedule,
  broken: async () => (await import("./trials/broken.ts")).broken,
  fuzz: async () => (await import("./trials/fuzz.ts")).fuzz,
  postgres: async () => (await import("./trials/postgres.ts")).postgres,
};
