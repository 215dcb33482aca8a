"""A small convolutional net with PyTorch, on images made up here: ten patterns under noise.

Three lines are there for plan: they say how fast it trains, write checkpoints, and go on from the newest one.
"""

# /// script
# [tool.trainplan]
# checkpoints = true
# constraints = {deadline = "30m"}
# ///
import argparse

import torch
import trainplan_run  # line 1
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--images", type=int, default=512)
options = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(7)
patterns = torch.rand(10, 3, 16, 16)
labels = torch.randint(0, 10, (options.images,))
images = patterns[labels] + 0.5 * torch.randn(options.images, 3, 16, 16)
loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)

model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Dropout(0.2),
    nn.Linear(32, 10),
).to(device)
optimizer = torch.optim.Adam(model.parameters())
criterion = nn.CrossEntropyLoss()

for _epoch in trainplan_run.torch_epochs(options.epochs, model=model, optimizer=optimizer):  # line 2
    for inputs, targets in trainplan_run.torch_batches(loader):  # line 3
        optimizer.zero_grad()
        loss = criterion(model(inputs.to(device)), targets.to(device))
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
