"""How the HTML report looks; its colours are those of the pictures."""

from __future__ import annotations

from rewriter.app.report.picture import svg

_PAGE = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:0 24px 64px;max-width:1180px;background:var(--rw-bg);color:var(--rw-ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
code,.path,.place,.diff,.where dt{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;
font-size:.86em}
a{color:var(--rw-same)}
header{padding:44px 0 8px}
.eyebrow{margin:0;color:var(--rw-dim);font-size:12px;font-weight:600;letter-spacing:.08em;text-transform:uppercase}
h1{margin:4px 0 22px;font-size:27px;line-height:1.25;letter-spacing:-.015em;overflow-wrap:anywhere}
h2{margin:44px 0 14px;font-size:18px;letter-spacing:-.01em;overflow-wrap:anywhere}
h3{margin:16px 0 4px;color:var(--rw-dim);font-size:11px;font-weight:600;letter-spacing:.07em;text-transform:uppercase}
.cards{display:flex;flex-wrap:wrap;gap:10px;margin:0;padding:0;list-style:none}
.cards li{min-width:104px;padding:11px 16px 10px;border:1px solid var(--rw-rim);border-radius:10px;background:var(--rw-box)}
.cards b{display:block;font-size:22px;font-weight:650;line-height:1.2;font-variant-numeric:tabular-nums}
.cards span{color:var(--rw-dim);font-size:13px}
.headline{margin:-10px 0 22px;font-size:18px}.headline .good{color:var(--rw-in)}.headline .bad{color:var(--rw-out)}
.cards .good b{color:var(--rw-in)}.cards .bad b{color:var(--rw-out)}
.wide{overflow-x:auto}
.filter{display:flex;flex-wrap:wrap;gap:10px;align-items:center;margin:30px 0 -14px}
.filter input,.filter select{padding:8px 12px;border:1px solid var(--rw-rim);border-radius:8px;background:var(--rw-box);
color:inherit;font:inherit}.filter input{flex:1 1 240px;min-width:0}#told{color:var(--rw-dim);font-size:13px}
[hidden]{display:none!important}td .issue{margin:0}
table{width:100%;border-collapse:collapse;font-size:14px}
th{padding:0 12px 7px 0;color:var(--rw-dim);font-size:12px;font-weight:600;text-align:left;white-space:nowrap}
td{padding:8px 12px 8px 0;border-top:1px solid var(--rw-rim);vertical-align:top}
td.path{min-width:11em;overflow-wrap:anywhere}
.num{padding-left:12px;padding-right:0;text-align:right;font-variant-numeric:tabular-nums;min-width:84px}
.num+.wider{padding-left:32px}
.bar{display:block;height:3px;margin:4px 0 0 auto;border-radius:2px;background:var(--rw-same);opacity:.65}
.dim{color:var(--rw-dim)}
.code{padding:2px 7px;border-radius:5px;border:1px solid var(--rw-rim);font-weight:600;white-space:nowrap}
.code.good{border-color:var(--rw-in);color:var(--rw-in);background:var(--rw-in-bg)}
.code.error{border-color:var(--rw-out);color:var(--rw-out);background:var(--rw-out-bg)}
.code.warning{border-color:var(--rw-ed);color:var(--rw-ed);background:var(--rw-ed-bg)}
.code.info{border-color:var(--rw-same);color:var(--rw-same);background:var(--rw-same-bg)}
.status,.verdict{display:inline-block;padding:1px 9px;border-radius:99px;border:1px solid var(--rw-rim);color:var(--rw-dim);
font-size:12px;font-weight:500;letter-spacing:0;vertical-align:2px;white-space:nowrap}
.status.changed,.status.clean,.verdict.verified{border-color:var(--rw-in);color:var(--rw-in);background:var(--rw-in-bg)}
.status.findings{border-color:var(--rw-ed);color:var(--rw-ed);background:var(--rw-ed-bg)}
.status.failed,.status.refused{border-color:var(--rw-out);color:var(--rw-out);background:var(--rw-out-bg)}
.facts{display:grid;grid-template-columns:minmax(90px,max-content) 1fr;gap:3px 20px;margin:0 0 20px;font-size:14px}
.facts dt{color:var(--rw-dim)}.facts dd{margin:0;overflow-wrap:anywhere}
.facts dd code{color:var(--rw-dim)}
.alert{margin:12px 0;padding:11px 15px;border-left:3px solid var(--rw-out);border-radius:0 8px 8px 0;
background:var(--rw-out-bg);
overflow-wrap:anywhere}
summary{cursor:pointer;list-style:none}
summary::-webkit-details-marker{display:none}
summary:focus-visible{outline:2px solid var(--rw-same);outline-offset:2px;border-radius:6px}
summary::before{content:"";flex:none;width:7px;height:7px;border:solid var(--rw-dim);border-width:0 1.6px 1.6px 0;
transform:rotate(-45deg);transition:transform .12s}
details[open]>summary::before{transform:rotate(45deg)}
.rule{margin:10px 0;border:1px solid var(--rw-rim);border-radius:10px;background:var(--rw-box);
content-visibility:auto;contain-intrinsic-size:auto 50px}
.rule>summary{display:flex;align-items:baseline;gap:11px;padding:12px 16px}
.rule>summary .title{flex:1;min-width:0}
.count{color:var(--rw-dim);font-variant-numeric:tabular-nums}
.issue{margin:0 16px 6px;font-size:13px;overflow-wrap:anywhere}
.firing,.chunk{border-top:1px solid var(--rw-rim);padding:0 16px;background:var(--rw-bg);content-visibility:auto;
contain-intrinsic-size:auto 40px}
.chunk{padding:0}.chunk>summary{padding:9px 16px;color:var(--rw-dim);display:flex;gap:11px;align-items:baseline}
.firing:last-child,.chunk:last-child{border-radius:0 0 10px 10px}
.firing>summary{display:flex;align-items:baseline;gap:11px;padding:9px 0}
.firing[open]{padding-bottom:14px}
.firing:target>summary{background:var(--rw-same-bg)}
.number{color:var(--rw-dim);font-size:13px;font-variant-numeric:tabular-nums}
.place{flex:1;min-width:0;overflow-wrap:anywhere}
.pair{display:flex;flex-wrap:wrap;gap:14px;margin:4px 0 14px}
.pair figure{flex:1 1 auto;max-width:100%;min-width:0;margin:0;padding:10px 14px 14px;
border:1px solid var(--rw-rim);border-radius:8px}
.pair figure>div{overflow-x:auto}
.pair svg{display:block;margin:0 auto;max-width:100%;height:auto}
figcaption{margin-bottom:8px;color:var(--rw-dim);font-size:11px;font-weight:600;letter-spacing:.07em;text-transform:uppercase}
.diff{overflow-x:auto;border-radius:8px;border:1px solid var(--rw-rim);line-height:1.65}
.diff del,.diff ins,.diff span{display:block;min-width:max-content;padding:1px 12px;text-decoration:none;white-space:pre}
.diff del{background:var(--rw-out-bg);color:var(--rw-out)}.diff ins{background:var(--rw-in-bg);color:var(--rw-in)}
.diff del::before{content:"\\2212\\a0"}.diff ins::before{content:"+ "}
.where{display:grid;grid-template-columns:minmax(120px,auto) 1fr;gap:4px 20px;margin:0;font-size:14px}
.where dt{padding-top:1px}.where dt,.where dd{margin:0;overflow-wrap:anywhere}.where dd{color:var(--rw-dim)}
.trail{margin:12px 0 0;font-size:13px}
.others{margin:18px 0;font-size:14px}.others>summary{display:flex;gap:11px;align-items:baseline;color:var(--rw-dim)}
.others ul{padding-left:20px}.others li{margin:4px 0;overflow-wrap:anywhere}
.about h3{margin-top:26px;color:inherit;font-size:14px;letter-spacing:0;text-transform:none}
.about h3:target{background:var(--rw-same-bg)}.about p{margin:4px 0;max-width:90ch;overflow-wrap:anywhere}
.about .issue{margin:0}
footer{margin-top:56px;padding-top:14px;border-top:1px solid var(--rw-rim);color:var(--rw-dim);font-size:13px;
overflow-wrap:anywhere}
@media (max-width:640px){
body{padding:0 14px 40px;font-size:14.5px}.wider{display:none}header{padding-top:26px}h1{font-size:21px}
.cards{display:grid;grid-template-columns:1fr 1fr}.cards li{min-width:0;padding:9px 12px}
.facts,.where{grid-template-columns:1fr;gap:0}
.facts dd,.where dd{margin-bottom:7px}
.rule>summary{flex-wrap:wrap;gap:7px 10px;padding:11px 12px}.rule>summary .title{flex:1 1 100%;order:3}
.rule>summary .count{margin-left:auto}
.firing{padding:0 12px}
}
@media print{details{break-inside:avoid}}
"""

STYLE = svg.COLORS + svg.STYLE + "".join(_PAGE.split("\n"))
