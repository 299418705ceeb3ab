# Hill- of the Hill and SPLC paper (Table VI): Hill for negatives, BCE for positives.
loss = dict(type='mmml_losses.PairLoss', positive='bce', negative=dict(type='hill', lamb=1.5))
