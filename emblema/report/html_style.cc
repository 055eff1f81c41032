#include "emblema/report/html_style.h"

#include "emblema/report/theme.h"

namespace emblema {
namespace {

// Wide content scrolls inside its own box, never the page. Each chart is there twice, drawn for a
// phone and for a desk: text of a scaled-down picture could not be read.
constexpr const char* kPageCss = R"(*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--em-page);color:var(--em-ink);font:16px/1.55 system-ui,
  -apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif;
  overflow-wrap:anywhere}
main,.top,.foot{max-width:960px;margin:0 auto;padding:0 16px}
.top{padding-top:36px}
h1{font-size:clamp(1.6rem,1.2rem + 2vw,2.3rem);line-height:1.18;letter-spacing:-.015em;margin:0;
  font-weight:680;text-wrap:balance}
.subtitle{margin:8px 0 0;color:var(--em-muted);font-size:1.06rem}
.verdict{display:inline-flex;gap:.5em;align-items:baseline;margin:18px 0 0;
  padding:5px 14px 5px 11px;border-radius:999px;border:1px solid currentColor;font-weight:600;
  font-size:.95rem;background:var(--em-card)}
.pass{color:var(--em-good)}.fail{color:var(--em-bad)}
section{margin:44px 0 0}
h2{font-size:1.28rem;line-height:1.3;letter-spacing:-.01em;margin:0 0 12px;font-weight:650}
p{margin:0 0 14px;max-width:70ch}
.box{background:var(--em-card);border:1px solid var(--em-line);border-radius:12px;margin:16px 0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,190px),1fr));
  gap:12px;margin:22px 0 8px}
.figures .box{margin:0;padding:15px 17px 14px}
.figures b{display:block;font-size:clamp(1.4rem,1.2rem + 1vw,1.75rem);line-height:1.2;
  font-weight:680;letter-spacing:-.02em;color:var(--em-accent);
  font-variant-numeric:tabular-nums}
.figures span{display:block;font-weight:550;line-height:1.35;margin-top:3px}
.figures small{display:block;color:var(--em-muted);font-size:.84rem;line-height:1.4;
  margin-top:5px}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,150px),1fr));
  gap:10px 18px;margin:16px 0}
.facts div{min-width:0}
dt{color:var(--em-muted);font-size:.84rem;line-height:1.35}
dd{margin:0;font-weight:550;font-variant-numeric:tabular-nums}
.scroll{background:linear-gradient(to left,
  var(--em-card) 14px,transparent) right/42px 100% no-repeat local,linear-gradient(to left,
  var(--em-shade),transparent) right/14px 100% no-repeat scroll,var(--em-card);overflow-x:auto;
  -webkit-overflow-scrolling:touch;overflow-wrap:normal}
.scroll:focus-visible{outline:2px solid var(--em-accent);outline-offset:2px}
table{border-collapse:separate;border-spacing:0;width:100%;font-size:.94rem;line-height:1.4;
  font-variant-numeric:tabular-nums}
caption{text-align:left;padding:13px 16px 3px;font-weight:600;caption-side:top}
th,td{padding:9px 12px;text-align:left;vertical-align:top;white-space:nowrap;
  border-top:1px solid var(--em-line)}
th:first-child,td:first-child{padding-left:16px}
th:last-child,td:last-child{padding-right:16px}
thead th{border-top:0;white-space:normal;color:var(--em-muted);font-weight:550;font-size:.84rem;
  vertical-align:bottom}
tbody th{font-weight:600;position:sticky;left:0;background:var(--em-card)}
.num{text-align:right}
.strong{font-weight:650}.muted{color:var(--em-muted)}.good{color:var(--em-good);font-weight:600}
.bad{color:var(--em-bad);font-weight:600}
figure{padding:17px 18px 14px}
figcaption{margin:0 0 10px}
figcaption b{display:block;font-weight:650;line-height:1.35}
figcaption span{display:block;color:var(--em-muted);font-size:.92rem;line-height:1.45;
  margin-top:2px;max-width:70ch}
.narrow .em-chart{max-width:460px}
.wide{display:none}
.checks{list-style:none;padding:0}
.checks li{display:grid;grid-template-columns:1.5em 1fr;gap:0 6px;padding:11px 16px;
  border-top:1px solid var(--em-line);line-height:1.4}
.checks li:first-child{border-top:0}
.checks i{font-style:normal;font-weight:700}
.checks .name{font-weight:550}
.checks .measured{grid-column:2;color:var(--em-muted);font-size:.92rem;
  font-variant-numeric:tabular-nums}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);
  white-space:nowrap}
pre{margin:16px 0;padding:13px 16px;overflow-x:auto;font:.86rem/1.5 ui-monospace,"SF Mono",
  Menlo,Consolas,"Liberation Mono",monospace;overflow-wrap:normal}
.foot{margin-top:52px;padding-bottom:36px;color:var(--em-muted);font-size:.86rem}
@media (min-width:760px){
main,.top,.foot{padding-left:28px;padding-right:28px}
.top{padding-top:56px}
.narrow{display:none}.wide{display:block}
figure{padding:20px 24px 16px}
.checks li{grid-template-columns:1.5em minmax(0,1fr) minmax(0,1.15fr);gap:0 10px}
.checks .measured{grid-column:3;font-size:.94rem}
}
@media print{
body{font-size:10.5pt;background:none}
main,.top,.foot{max-width:none;padding-left:0;padding-right:0}
.narrow{display:none}.wide{display:block}
section{margin-top:24px}
.box,li,tr,.facts,.figures{break-inside:avoid}
h2{break-after:avoid}
.scroll{overflow:visible}
th,td{white-space:normal;padding:5px 8px}
}
)";

}  // namespace

std::string page_css() {
  return theme_css(":root") + std::string(chart_css()) + kPageCss;
}

}  // namespace emblema
