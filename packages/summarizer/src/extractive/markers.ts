/**
 * Words by which people and models mark what kind of sentence they write, in the languages most sessions are held in
 * (English, German, Spanish, French, Portuguese, Italian, Chinese, Japanese, Korean, Russian).
 * They only rank sentences; a session in another language gets its summary from structure alone.
 */

function words(...alternatives: string[]): RegExp {
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${alternatives.join("|")})(?![\\p{L}\\p{N}])`, "iu");
}

const STRONG_RULE_WORDS = words(
  "must(?:n['’]?t)?|never|always|do(?:n['’]?t| not)|only (?:use|the|when|if|on|in|for|with)|prefer(?:s|red)?|instead|without|make sure|ensure|required?|forbidden|avoid|no more|at (?:most|least)",
  "muss|müssen|darf|nie(?:mals)?|immer|nicht|kein(?:e|en|er)?|nur|stattdessen|statt|ohne|bitte keine?|bevorzug\\p{L}*|höchstens|mindestens",
  "debe(?:s|n)?|nunca|siempre|prefiero|sin|en lugar de|solo|sólo|evita|no uses",
  "doit|doivent|jamais|toujours|sans|plutôt|préfér\\p{L}*|au lieu|uniquement|éviter?|ne .{1,20} pas",
  "deve(?:m)?|sempre|não|sem|prefiro|em vez|somente|apenas|evite",
  "mai|senza|preferisco|invece|devono|soltanto",
  "должен|должна|должны|никогда|всегда|нельзя|только|вместо|без|не надо",
);
const STRONG_RULE_CHARACTERS =
  /必须|不要|不能|不得|禁止|总是|务必|只能|优先|必ず|しないで|禁止|ないでください|のみ|반드시|하지 ?마|항상|절대|금지/u;
const WEAK_RULE_WORDS = words(
  "should(?:n['’]?t)?|keep|use|i don['’]?t like|rather|it(?:['’]s| is) important|remember",
  "soll(?:te|ten|en)?|brauch\\p{L}*|verwende\\p{L}*|nutze|behalte|wichtig",
  "usa|necesit\\p{L}*|quiero|importante|il faut|utilise\\p{L}*|veux|precisa|quero|use o|нужно|используй",
);
const WEAK_RULE_CHARACTERS = /应该|需要|使用|请用|べき|使って|해야|사용/u;

/** How much a sentence of the user reads like a rule that stays in force: 2 clearly, 1 perhaps, 0 not. */
export function ruleStrength(sentence: string): 0 | 1 | 2 {
  if (STRONG_RULE_WORDS.test(sentence) || STRONG_RULE_CHARACTERS.test(sentence)) return 2;
  return WEAK_RULE_WORDS.test(sentence) || WEAK_RULE_CHARACTERS.test(sentence) ? 1 : 0;
}

const DECISION_WORDS = words(
  "decid\\p{L}*|decision|instead of|rather than|chose|choose|we['’]ll (?:use|go|keep)|i['’]ll use|going with|opt(?:ed|ing) for|agreed|best (?:solution|approach|option)|recommend|trade-?off",
  "entschieden|entscheidung|anstatt|anstelle|stattdessen|empfehle|wir nehmen",
  "decid\\p{L}*|en lugar de|recomiendo|décid\\p{L}*|au lieu de|recommande|em vez de|recomendo|решил\\p{L}*|вместо",
);
const DECISION_CHARACTERS = /决定|改用|而不是|采用|建议|決め|代わりに|결정|대신/u;
const REASON_WORDS = words(
  "because|root cause|the (?:real |actual )?(?:problem|issue|cause|bug|reason) (?:is|was)|turns out|it turned out|the fix|which (?:means|is why)",
  "weil|deshalb|ursache|das problem (?:ist|war)|es stellte sich heraus|porque|la causa|el problema (?:es|era)|parce que|le problème (?:est|était)|o problema (?:é|era)|потому что|причина|проблема в",
);
const REASON_CHARACTERS = /因为|原因|问题是|ため|問題は|때문|문제는/u;

/** How much a sentence reads like a decision or the cause of a problem. */
export function decisionStrength(sentence: string): 0 | 1 | 2 {
  if (DECISION_WORDS.test(sentence) || DECISION_CHARACTERS.test(sentence)) return 2;
  return REASON_WORDS.test(sentence) || REASON_CHARACTERS.test(sentence) ? 1 : 0;
}

const PLAN_WORDS = words(
  "next(?: step| up)?|remaining|still (?:need|have) to|not yet|open|to ?do|left to do|after that|later|follow-?up|let me|now (?:let['’]s|i['’]ll|update|add|fix|check|run)|i['’]ll|i will|going to|we need to",
  "als nächstes|nächster schritt|danach|offen|noch nicht|jetzt|werde|siguiente|falta|ahora|prochaine étape|ensuite|maintenant|próximo|agora|falta|далее|теперь|осталось",
);
const PLAN_CHARACTERS = /下一步|接下来|还需要|现在|次に|これから|다음|이제/u;

/** True for a sentence that says what comes next. */
export function isPlan(sentence: string): boolean {
  return PLAN_WORDS.test(sentence) || PLAN_CHARACTERS.test(sentence);
}

const RESULT_WORDS = words(
  "added|fixed|removed|updated|created|changed|replaced|renamed|moved|implemented|ported|switched|works|working|passes|passing|now|done|so far",
  "hinzugefügt|behoben|entfernt|aktualisiert|erstellt|geändert|ersetzt|umbenannt|funktioniert|fertig",
  "añadido|corregido|eliminado|creado|cambiado|ajouté|corrigé|supprimé|créé|adicionado|corrigido|removido|criado|добавил\\p{L}*|исправил\\p{L}*|готово",
);
const RESULT_CHARACTERS = /已|完成|修复|添加了|しました|완료|했습니다/u;

/** True for a sentence that reports what was done. */
export function isResult(sentence: string): boolean {
  return RESULT_WORDS.test(sentence) || RESULT_CHARACTERS.test(sentence);
}

/** Messages that only tell the agent to go on; they continue a turn instead of beginning one. */
const CONTINUATIONS =
  /^(?:continue|go on|go ahead|proceed|keep going|next|yes|yeah|yep|ok(?:ay)?|sure|y|please|do it|thanks?|thank you|weiter|mach weiter|ja|sí|si|oui|sim|vai|continúa|continua|продолжай|да|继续|好的?|はい|続けて|계속|네)[\s.!,…]*$/iu;

export function isContinuation(text: string): boolean {
  return CONTINUATIONS.test(text.trim());
}
