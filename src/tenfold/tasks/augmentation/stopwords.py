"""English function words: replacing them would change what a sentence says (not, never, without) or break its grammar."""

_TEXT = """
a an the this that these those each every either neither both all any some no none such same other another
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves one oneself who whom whose which what whatever whoever whichever
someone somebody something anyone anybody anything everyone everybody everything nobody nothing
and or but nor so yet if unless because although though while whereas whether than as since until till
about above across after against along amid among around at before behind below beneath beside besides between beyond
by despite down during except for from in inside into like near of off on onto out outside over past per through
throughout to toward towards under underneath up upon via with within without
am is are was were be been being have has had having do does did doing done
can could may might must shall should will would ought cannot
not never hardly scarcely barely only just too very also even ever again once then there here now
when where why how however therefore thus hence moreover nevertheless otherwise rather quite
more most less least much many few fewer several enough own
s t d m o re ve ll y ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won
wouldn let ma
"""
STOP_WORDS = frozenset(_TEXT.split())
