# Focal+ of the Hill and SPLC paper (Table VI): focal for positives, BCE for negatives.
loss = dict(type='mmml_losses.PairLoss', positive=dict(type='focal', gamma=2.0), negative='bce')
