# Focal margin+ of the Hill and SPLC paper (Table VI): focal margin for positives, BCE for negatives.
loss = dict(type='mmml_losses.PairLoss', positive=dict(type='focal_margin', margin=1.0, gamma=2.0), negative='bce')
