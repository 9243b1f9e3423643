"""Golden renderings of small templates, one language feature each, by jinja2 itself.

    python3 make_features.py > features.json     (jinja2 3.1.6)
"""
import json

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "s": "Hello, World", "u": "Zürich 中文 🙂", "pad": "  x y \n", "n": 7, "neg": -7, "f": 2.5, "t": True, "no": False, "nil": None, "empty": "",
    "list": [3, 1, 2], "words": ["b", "A", "c"], "none_list": [], "d": {"b": 1, "a": [1, None, True, 1.5, "x'y"], "items": "shadow"},
    "people": [{"name": "Ann", "age": 30, "tags": {"role": "user"}}, {"name": "Bob", "age": 25, "tags": {"role": "tool"}}, {"name": "Cy"}],
    "quote": "it's \"q\" \\ \n\t end", "html": "<b>&amp;</b>",
}

SNIPPETS = r"""
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 2 ** 10 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }}
{{ 2 ** 3 ** 2 }} {{ 2 ** -1 }} {{ 1.5 * 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e3 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.125 }} {{ 1_000 }}
{{ -n }} {{ +n }} {{ - -n }} {{ -n|abs }} {{ neg|abs }} {{ -f }} {{ t + t }} {{ -t }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }} {{ 'a' 'b' }} {{ 'ab' * 3 }} {{ 2 * 'x' }} {{ [1] + [2] }} {{ [0] * 3 }} {{ 'x' * -1 }}|
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ 'a' == 1 }} {{ none == none }} {{ [1,2] == [1,2] }} {{ {'a':1} == {'a':1.0} }} {{ 1 != 2 }}
{{ 'ell' in s }} {{ 'zzz' not in s }} {{ 3 in list }} {{ 9 in list }} {{ 'b' in d }} {{ 1 in d }} {{ not 3 in list }} {{ 'x' in missing }}
{{ t and 5 }} {{ no or 'x' }} {{ nil or no }} {{ t and no or 3 }} {{ not t }} {{ not not t }} {{ '' or none_list or 'end' }}
{{ 'yes' if t else 'no' }} {{ 'yes' if no else 'no' }} {{ 'yes' if no }}| {{ 1 if no else 2 if no else 3 }}
{{ missing }}|{{ missing is defined }} {{ d.nope is defined }} {{ nil is defined }} {{ missing == nil }} {{ missing == other }} {{ not missing }}
{{ missing.x }}
{{ missing + 1 }}
{{ missing < 1 }}
{{ d.nope.deeper }}
{{ nil.x is defined }} {{ nil['x'] is defined }} {{ n.x is defined }}
{{ list[0] }} {{ list[-1] }} {{ list[99] is defined }} {{ list['x'] is defined }} {{ d['b'] }} {{ d.b }} {{ d['zz'] is defined }} {{ s[0] }} {{ u[7] }} {{ u[-1] }}
{{ list[::-1] }} {{ list[1:] }} {{ list[:-1] }} {{ list[:2] }} {{ list[::2] }} {{ list[5:] }} {{ list[-2:] }} {{ list[2:0:-1] }} {{ list[-100:100] }}
{{ s[1:4] }} {{ u[::-1] }} {{ s[-5:] }} {{ s[:-1:3] }} {{ u[2:9] }} {{ s[10:2:-2] }}
{{ d }} {{ list }} {{ words }} {{ [none, true, 1.0, 'a\nb', "it's", 'q"', 'both\'"'] }} {{ {} }} {{ [] }} {{ u }} {{ [u] }}
{{ d|tojson }} {{ list|tojson }} {{ quote|tojson }} {{ html|tojson }} {{ u|tojson }} {{ nil|tojson }} {{ f|tojson }} {{ [1, [2, {}], []]|tojson }}
{{ d|tojson(indent=2) }}
{{ people|tojson(indent=4) }}
{{ [[], {}, [1]]|tojson(indent=1) }}
{{ '\u00e9\x01\x7f\b\f'|tojson }}
{{ missing|tojson }}
{{ pad|trim }}| {{ '--x--'|trim('-') }} {{ 5|trim }} {{ '  a'.strip() }}| {{ pad.lstrip() }}| {{ pad.rstrip() }}| {{ 'xxaxx'.strip('x') }} {{ 'xyaxy'.lstrip('yx') }} {{ '\u3000a\u00a0'.strip() }}
{{ s|upper }} {{ s|lower }} {{ s.upper() }} {{ s.lower() }} {{ 'hello wORLD'|title }} {{ "they're bill's".title() }} {{ "they're bill's"|title }} {{ 'hELLO you'|capitalize }} {{ 'a-b c'|title }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c'.split(None, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ 'a\nb\r\nc\n'.splitlines() }}
{{ s.startswith('Hell') }} {{ s.endswith(('x', 'World')) }} {{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'ab'.replace('', '-') }} {{ s|replace('o', '0') }} {{ s|replace('o', '0', 1) }} {{ ''.replace('', 'x') }}
{{ s.find('World') }} {{ u.find('文') }} {{ s.find('zz') }} {{ s.count('l') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ ', '.join(words) }} {{ '12'.isdigit() }} {{ ''.isdigit() }}
{{ words|join }} {{ words|join(', ') }} {{ list|join('-') }} {{ people|join(', ', attribute='name') }} {{ 'abc'|join('.') }} {{ missing|join }}|
{{ list|length }} {{ u|length }} {{ d|length }} {{ s|count }} {{ missing|length }}
{{ n|length }}
{{ list|first }} {{ list|last }} {{ s|first }} {{ s|last }} {{ none_list|first }}| {{ d|first }}
{{ list|sort }} {{ words|sort }} {{ list|sort(reverse=true) }} {{ people[:2]|sort(attribute='age')|map(attribute='name')|list }} {{ list|reverse|list }} {{ 'abc'|reverse }} {% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}
{{ missing|default('x') }} {{ nil|default('x') }} {{ nil|default('x', true) }} {{ ''|d('y', boolean=true) }} {{ missing|d }}| {{ d.zz|default(d.b) }} {{ no|default(1) }}
{{ '42'|int }} {{ ' 42 '|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 3.9|int }} {{ '3.9'|int }} {{ -3.9|int }} {{ true|int }} {{ '1.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ '+5'|int }}
{{ 5|string + 'a' }} {{ none|string }} {{ list|string|length }} {{ 1.0|string }}
{{ people|map(attribute='name')|list }} {{ people|map(attribute='tags.role', default='-')|list }} {{ words|map('upper')|join }} {{ list|map('string')|join('+') }} {{ people|map(attribute='age', default=0)|list }} {{ words|map('replace', 'b', 'BB')|list }}
{{ people|selectattr('age')|map(attribute='name')|list }} {{ people|selectattr('name', 'equalto', 'Bob')|list|length }} {{ people|rejectattr('age', 'defined')|map(attribute='name')|list }}
{{ people|selectattr('tags.role', '==', 'tool')|map(attribute='name')|list }}
{{ list|select('odd')|list }} {{ list|reject('odd')|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ list|select('gt', 1)|list }} {{ list|select('in', [1, 2])|list }} {{ [1, 'a', none]|select('string')|list }}
{{ d|list }} {{ 'ab'|list }} {{ d|items|list|length }} {{ missing|items|list }} {% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {{ d.keys()|list }} {{ d.values()|list }} {{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ d['items'] }} {{ d.items is defined }}
{{ t is true }} {{ t is false }} {{ no is false }} {{ 1 is true }} {{ t is boolean }} {{ n is number }} {{ t is number }} {{ f is float }} {{ n is integer }} {{ t is integer }} {{ s is string }} {{ d is mapping }} {{ list is mapping }}
{{ list is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ s is iterable }} {{ n is iterable }} {{ missing is iterable }} {{ nil is none }} {{ missing is none }} {{ nil is not none }} {{ missing is undefined }}
{{ 4 is even }} {{ 4 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 3 is in list }} {{ 3 is not in list }} {{ 3 is eq 3 }} {{ 3 is gt 2 }} {{ 'a' is ne 'b' }} {{ n is lt 8 and n is ge 7 }} {{ range is callable }}
{{ not missing is defined }} {{ missing is defined or t }} {{ s is string and s|length > 3 }} {{ n + 1 is number }} {{ (n is number) == true }}
{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {{ loop.previtem|default('^') }}{{ loop.nextitem|default('$') }};{% endfor %}
{% for x in [] %}a{% else %}none{% endfor %} {% for x in missing %}a{% else %}none{% endfor %} {% for c in 'añ' %}{{ c }}.{% endfor %} {% for k in d %}{{ k }},{% endfor %}
{% for x in list if x > 1 %}{{ x }}/{{ loop.length }} {% else %}no{% endfor %} {% for x in list if x > 9 %}{{ x }}{% else %}no{% endfor %}
{% for x in list %}{% for y in words %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }}{{ loop.depth }} {% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }} {% endfor %}{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for x in n %}{{ x }}{% endfor %}
{% set x = 1 %}{% for i in list %}{% set x = i %}{{ x }}{% endfor %}{{ x }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set a, b = [5, 6] %}{{ a }}{{ b }}
{% for i in [1, 2] %}{% if y is defined %}seen{% endif %}{% set y = i %}{{ y }}{% endfor %}{{ y is defined }}
{% set ns = namespace(found=false, k=0) %}{% for i in list %}{% if i == 1 %}{% set ns.found = true %}{% endif %}{% set ns.k = ns.k + i %}{% endfor %}{{ ns.found }} {{ ns.k }} {{ ns.zz is defined }}
{% set d.x = 1 %}
{% set text %}a{{ n }}b{% endset %}{{ text }}|{{ text|length }} {% if t %}{% set inner = 3 %}{% endif %}{{ inner }}
{% macro hi(name, mark='!') %}Hi {{ name }}{{ mark }}{% endmacro %}{{ hi('Bo') }} {{ hi('Bo', '?') }} {{ hi(name='X', mark='.') }} {{ hi() }}
{% macro outer(x) %}{{ s }}{{ x }}{% endmacro %}{% for i in [1, 2] %}{{ outer(i) }} {% endfor %}{% macro rec(k) %}{{ k }}{% if k > 0 %}{{ rec(k - 1) }}{% endif %}{% endmacro %}{{ rec(3) }}
{% macro one(a) %}{{ a }}{% endmacro %}{{ one(1, 2) }}
{{ range(5)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(3, 1)|list }} {{ dict(a=1, b=2) }} {{ dict({'a': 1}, b=3) }} {{ range(3)|length }}
{{ raise_exception('stop here') }}
{{ {'a': {'b': [10, {'c': 'deep'}]}}.a.b[1].c }} {{ (1, 2)[1] }} {{ [1, 2,] }} {{ {'k': 1,} }} {{ 'abc'[1] }}
{% raw %}{{ not }} {% evaluated %}{% endraw %} {{ '{{' }} {{ '%}' }} {{ "}}" }} {# comment {{ x }} #}|
{{ 'tab\t|nl\n|bs\\|sq\'|dq\"|\x41|\u00e9|\U0001F642|\q|\101' }}
{%- if t -%}   trimmed   {%- endif -%}   end
a  {{- n -}}  b {{ n -}}
 c
{% if n == 1 %}one{% elif n == 7 %}seven{% elif n == 8 %}eight{% else %}other{% endif %}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ 'a' + none }}
{{ none + 'a' }}
{{ 'a' in none }}
{{ 1 in 'a' }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ n() }}
{{ missing() }}
{{ s.nope() }}
{{ s|nosuchfilter }}
{{ s is nosuchtest }}
{% nosuchtag %}
{{ 1 + }}
{{ (1 }}
{% if t %}
{% endif %}
{{ 'open }}
{{ list.append(4) }}
{{ s.__class__ }}
{{ s.__class__.__mro__ }}
{{ s.format('x') if no else 'ok' }} {{ 'x'|indent }} {{ 'a\nb\n\nc'|indent(2) }}| {{ 'a\nb'|indent(2, true) }}| {{ 'a\n\nb'|indent(2, blank=true) }}
{{ 9223372036854775807 }} {{ -9223372036854775807 }} {{ 9223372036854775806 + 1 }}
{{ loop is defined }} {{ list|length > 2 and list[0] == 3 }} {{ (list|length) - 1 }} {{ list|length - 1 }}
{{ s|default('x')|upper|lower|length }} {{ s.split(', ')[1].upper()[::-1] }} {{ (s ~ '!')|length }} {{ "a" if "b" in "abc" else "c" }}
{{ True }} {{ False }} {{ None }} {{ none is none }} {{ [True, False, None] }}
{{ [1, 2][true] }} {{ 'ab'[false] }} {{ [[1, 2], [3]][0][1] }} {{ list[n - 6] }} {{ list[-(1)] }}
{% for m in people %}{{ m.name }}{% if not loop.last %}, {% endif %}{% endfor %} {{ people[0]['tags'].role }} {{ people[-1].tags is defined }}
{{ 1 ~ 2 + 3 }}
{{ "%s" ~ 1 }} {{ 10 ~ 20 }} {{ 1 ~ (2 + 3) }} {{ -2 ** 2 }} {{ 2 * -3 }} {{ not 1 == 2 }} {{ 'a' ~ 'b' == 'ab' }}
{{ s|safe }} {{ [1, 2, 3]|map('string')|list }} {{ 'a b'.split(' ')|last }} {{ words|map('lower')|sort|join }}
""".strip("\n").split("\n")

BLOCKS = [
    "{% if t %}\n  yes\n{% endif %}\nend\n",
    "  {% if t %}\n  yes\n  {% endif %}\n  end\n\n",
    "  {%+ if t %}\n  yes\n  {%+ endif %}\n",
    "{% if t +%}\n  yes\n{%- endif %}\n",
    "x {% if t %}\ny{% endif %} z\n",
    "  {# comment #}\n a\n  {#- c -#}\n b\n  {#+ d +#}\n c",
    "  {{ n }}\n  {{- n }}\n{{ n -}}\n  x\n",
    "{% for i in list %}\n    * {{ i }}\n{% endfor %}\ndone",
    "\t{% set x = 1 %}\t\n{{ x }}",
    "a\r\nb\rc\n{% if t %}\r\n d{% endif %}\r\n",
    "{{ 'a\r\nb' }}",
    "{%- for i in list %}\n{{- i }}\n{%- endfor %}\n\n",
    "  {% raw %}\n  {{ x }}\n  {% endraw %}\n  y",
    "{%- raw -%}\n  {{ x }}\n  {%- endraw -%}\n  y",
    "{% if t %}\n\n\n{% endif %}",
    "{{ n }}\n\n",
    "{\n{%if t%}{{n}}{%endif%}\n}",
    "{{\n  n\n}}{%\n if t\n%}x{%\nendif\n%}",
    "   {{ n }}{% if t %}  \n {% endif %}\n",
    "{% set x %}\n  a\n{% endset %}\n[{{ x }}]",
]


def stop(message):
    raise jinja2.exceptions.TemplateError(message)


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    environment.globals["raise_exception"] = stop
    cases = []
    for source in SNIPPETS + BLOCKS:
        case = {"source": source}
        try:
            case["expected"] = environment.from_string(source).render(**VARIABLES)
        except Exception as error:  # whatever Python raises: only that it fails counts
            case["error"] = f"{type(error).__name__}: {error}"
        cases.append(case)
    print(json.dumps({"jinja2": jinja2.__version__, "variables": VARIABLES, "cases": cases}, ensure_ascii=False, indent=1))


main()
