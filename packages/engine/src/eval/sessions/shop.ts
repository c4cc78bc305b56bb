// Refunds that were made twice, in Korean.
import { claudeCode, edit, fail, messagesOf, plan, read, run, type Turn } from "./steps.ts";

const S = "/home/dev/shop/src";
const shopInKorean: readonly Turn[] = [
  [
    "결제 모듈에서 환불이 두 번 처리되는 문제가 있어요. 원인을 찾아 주세요. 운영 데이터베이스는 절대 건드리지 마세요.",
    [
      read(`${S}/refund/service.ts`, "processRefund", "findRefund", "markRefunded", "notifyRefund"),
      read(`${S}/refund/webhook.ts`, "handleWebhook", "verifySignature"),
      run("npm test -- refund", "18 passed"),
    ],
    "원인은 웹훅 재전송입니다. handleWebhook 이 같은 이벤트를 두 번 받아도 중복을 확인하지 않기 때문에 환불이 두 번 처리됩니다.",
  ],
  [
    "이벤트 아이디로 중복을 막아 주세요. 새 라이브러리는 추가하지 말고요.",
    [
      edit(
        `${S}/refund/webhook.ts`,
        "if (await seenEvent(event.id)) return;",
        "레디스 잠금 대신 고유 인덱스를 쓰기로 결정했습니다. 새 의존성이 필요 없기 때문입니다.",
      ),
      fail(
        "npm test -- refund",
        'Error: relation "webhook_event" does not exist\n2 failed, 16 passed',
        "환불 테스트를 실행합니다.",
      ),
      edit(`${S}/../migrations/031_webhook_event.sql`, "CREATE TABLE webhook_event (id text PRIMARY KEY);"),
      run("npm run migrate:test && npm test -- refund", "applied 031\n20 passed"),
    ],
    "중복 이벤트는 이제 무시됩니다. webhook_event 테이블이 없어서 테스트가 실패했지만 마이그레이션 031 을 추가해서 통과했습니다.",
  ],
  [
    "좋아요. 환불 금액 반올림도 확인해 주세요. 원 단위로 내림해야 합니다.",
    [
      read(`${S}/refund/amount.ts`, "roundAmount", "splitAmount", "sumAmounts"),
      edit(`${S}/refund/amount.ts`, "return Math.floor(amount);"),
      run("npm test -- amount", "9 passed"),
    ],
    "roundAmount 가 반올림을 하고 있어서 내림으로 수정했습니다. 부분 환불의 합계가 원금을 넘지 않습니다.",
  ],
  [
    "브랜치 만들어서 커밋하고 푸시해 주세요. main 에는 직접 푸시하지 마세요.",
    [
      run(
        "git switch -c fix/duplicate-refund && git commit -am '중복 환불 방지'",
        "[fix/duplicate-refund 3be91c7] 중복 환불 방지",
      ),
      run(
        "git push -u origin fix/duplicate-refund",
        "remote: https://git.example/shop/pull/new/fix/duplicate-refund",
      ),
    ],
    "커밋 3be91c7 을 브랜치 fix/duplicate-refund 에 푸시했습니다. 풀 리퀘스트는 아직 만들지 않았습니다.",
  ],
  [
    "관리자 화면에서 환불 내역이 느려요. 목록이 뜨는 데 8초 걸립니다.",
    [
      read(`${S}/admin/refund-list.tsx`, "RefundList", "useRefunds", "renderRow"),
      run("npm run explain -- refunds", "Seq Scan on refunds (cost=0.00..48210.00)"),
      edit(
        `${S}/../migrations/032_refund_index.sql`,
        "CREATE INDEX refunds_created_at ON refunds (created_at DESC);",
      ),
      run("npm run explain -- refunds", "Index Scan using refunds_created_at (cost=0.42..61.10)"),
    ],
    "느린 원인은 정렬할 인덱스가 없어서 전체를 읽기 때문이었습니다. 인덱스를 추가하니 8초에서 0.2초로 줄었습니다.",
  ],
  [
    "페이지 나누기는 번호 말고 커서 방식으로 바꿔 주세요.",
    [
      edit(`${S}/admin/refund-list.tsx`, "const { nextCursor } = useRefundPage(cursor);"),
      fail(
        "npm run build",
        "src/admin/refund-list.tsx(41,12): error TS2339: Property 'page' does not exist on type 'RefundPage'",
      ),
      edit(
        `${S}/admin/types.ts`,
        "export interface RefundPage { rows: Refund[]; nextCursor?: string }",
        "남은 곳에서 아직 page 를 쓰고 있습니다.",
      ),
      run("npm run build", "built in 6.2s"),
    ],
    "커서 방식으로 바꿨습니다. 빌드가 실패한 이유는 예전 타입의 page 때문이었고 RefundPage 타입을 고쳐서 해결했습니다.",
  ],
  [
    "고객에게 보내는 환불 메일 문구가 어색해요. 존댓말로 통일하고 영어는 빼 주세요.",
    [
      read(`${S}/mail/refund-mail.ts`, "renderRefundMail", "subjectOf"),
      edit(`${S}/mail/refund-mail.ts`, "환불이 완료되었습니다. 영업일 기준 3일 안에 입금됩니다."),
      run("npm test -- mail", "5 passed"),
    ],
    "메일 문구를 존댓말로 통일하고 영어 표현을 제거했습니다. 제목은 환불 완료 안내입니다.",
  ],
  [
    "스테이징에 배포해서 확인해 주세요. 주소는 http://10.20.0.7:8080 입니다.",
    [
      fail("npm run deploy:staging", "Error: health check failed: connect ECONNREFUSED 10.20.0.7:8080"),
      run(
        "ssh deploy@10.20.0.7 'systemctl status shop'",
        "shop.service: failed, missing REFUND_SECRET",
        "서비스 상태를 확인합니다.",
      ),
      edit("/home/dev/shop/deploy/staging.env", "REFUND_SECRET=vault:refund"),
      run("npm run deploy:staging", "health check ok"),
    ],
    "배포가 실패한 원인은 환경 변수 REFUND_SECRET 이 없었기 때문입니다. staging.env 에 추가한 뒤 http://10.20.0.7:8080 이 정상 동작합니다.",
  ],
  [
    "부분 환불도 같은 방식으로 중복이 막히나요?",
    [
      read(`${S}/refund/partial.ts`, "processPartial", "remainingAmount"),
      fail("npm test -- partial", "AssertionError: expected 1 refund, got 2"),
      edit(`${S}/refund/partial.ts`, "if (await seenEvent(event.id)) return;"),
      run("npm test -- partial", "7 passed"),
    ],
    "아니요, 부분 환불은 다른 경로라서 막히지 않았습니다. processPartial 에도 같은 확인을 추가해서 이제 통과합니다.",
  ],
  [
    "남은 작업을 정리해서 진행해 주세요. 풀 리퀘스트 제목은 한국어로 써 주세요.",
    [
      plan(
        "x 중복 환불 방지",
        "x 목록 속도 개선",
        "~ 풀 리퀘스트 작성",
        "  환불 통계 화면 추가",
        "  운영 배포 일정 확인",
      ),
      run("gh pr create --title '중복 환불 방지' --fill", "https://git.example/shop/pull/512"),
    ],
    "풀 리퀘스트 #512 를 열었습니다: https://git.example/shop/pull/512. 다음은 환불 통계 화면입니다.",
  ],
  [
    "통계 화면은 차트 없이 표로만 만들어 주세요.",
    [
      edit(`${S}/admin/refund-stats.tsx`, "export function RefundStats() {}"),
      read(`${S}/admin/stats-query.ts`, "countByDay", "sumByDay"),
      edit(`${S}/admin/stats-query.ts`, "export function sumByMonth() {}"),
      run("npm run build && npm test -- admin", "built in 6.4s\n14 passed"),
    ],
    "RefundStats 를 표로 만들었습니다. 월별 합계는 sumByMonth 가 계산하고 차트 라이브러리는 쓰지 않았습니다.",
  ],
  [
    "리뷰에서 시간대가 틀렸다고 하네요. 서울 시간 기준으로 날짜를 나눠 주세요.",
    [
      fail("npm test -- stats", "AssertionError: 2026-03-01 counted as 2026-02-28"),
      edit(`${S}/admin/stats-query.ts`, "AT TIME ZONE 'Asia/Seoul'"),
      run("npm test -- stats", "6 passed"),
    ],
    "날짜를 UTC 로 나눠서 하루씩 밀렸던 것이 원인입니다. 서울 시간으로 바꾸어 테스트가 통과합니다.",
  ],
];

/** Refunds that were made twice, in Korean. */
export const shop = messagesOf(claudeCode, shopInKorean);
