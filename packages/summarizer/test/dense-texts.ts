/** Numbers from 0 to 1, always the same ones. */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const next = sequence(7);
const bytes = (count: number) => Buffer.from(Array.from({ length: count }, () => Math.floor(next() * 256)));
const word = (length: number) =>
  Array.from({ length }, () => String.fromCharCode(97 + Math.floor(next() * 26))).join("");

/** Texts that have many tokens for their length, generated so that they are the same on every machine. */
export const denseTexts = {
  hex: bytes(1_000).toString("hex"),
  base64: bytes(1_500).toString("base64"),
  minifiedJson: JSON.stringify(
    Array.from({ length: 40 }, (_, id) => ({
      id: id * 7_919,
      k: word(5),
      v: next(),
      t: [id % 2 === 0, null],
      a_b: { x: -id },
    })),
  ),
  digits: Array.from({ length: 1_000 }, () => Math.floor(next() * 10)).join(""),
  letters: word(2_000),
  punctuation: Array.from(
    { length: 1_000 },
    () => "!#$%&'()*+,-./:;<=>?@[]^_{|}~"[Math.floor(next() * 29)],
  ).join(""),
  rareChinese: Array.from({ length: 700 }, () =>
    String.fromCodePoint(0x4e00 + Math.floor(next() * 20_000)),
  ).join(""),
  chinese: "我们需要把这个文件里的函数改成异步的，然后运行测试看看有没有问题。".repeat(20),
  korean: "이 파일의 함수를 비동기로 바꾸고 테스트를 실행해 주세요. ".repeat(20),
  thai: "เราต้องเปลี่ยนฟังก์ชันในไฟล์นี้ให้เป็นแบบอะซิงโครนัส ".repeat(20),
  emoji: "👩‍👩‍👧‍👦🚀🔥🎉".repeat(60),
  spaces: " ".repeat(400) + "\t\n".repeat(200),
  prose: "The function reads the file, and the test fails because the path is wrong. ".repeat(20),
} as const;
