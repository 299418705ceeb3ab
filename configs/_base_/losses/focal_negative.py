# Focal- of the Hill and SPLC paper (Table VI): BCE for positives, focal for negatives.
loss = dict(type='mmml_losses.PairLoss', positive='bce', negative=dict(type='focal', gamma=2.0))
