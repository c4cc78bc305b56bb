import { testShortForms } from "./bundled-program.ts";

testShortForms({
  kill: { kills: 12 },
  cut: { files: 60 },
  flip: { files: 150, named: 50 },
  // A kill costs the entry that was under way, and a slow machine has time for many kills.
  share: { "acked, 1 KB": 200, "acked, 600 KB to 3 MB": 12 },
  lease: { rounds: 40 },
  room: { refused: 150, drained: 120, "removed and replaced": 20, "ulimit -f: refused": 10 },
  power: { cuts: 20, "acked at fsync": 100 },
  calls: { "calls, v3": 150, "calls, v1": 150, "calls, ids": 300, scenarios: 300 },
  fuzz: { files: 250, "with issues": 120 },
  lives: {
    lives: 20,
    requests: 250,
    approvals: 15,
    crashes: 12,
    forks: 4,
    hides: 12,
    compactions: 3,
    "changes of model": 10,
    "in a loop of tools": 8,
    "navigations with a summary": 5,
  },
  // Skipped where no file system can be mounted.
  outage: { cuts: 6, "acked at fsync": 1 },
  // Skipped where there is no server.
  postgres: {
    "crashes of the server": 2,
    "killed clients": 2,
    "entries of many writers": 320,
    acknowledged: 10,
  },
});
